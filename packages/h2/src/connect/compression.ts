import { promisify } from "node:util";
import zlib from "node:zlib";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";

type Convert = (bytes: Uint8Array, options: { readonly maxOutputLength?: number }) => Promise<Buffer>;

/** What zlib says when the output would be larger than `maxOutputLength`. */
const TOO_LARGE = "ERR_BUFFER_TOO_LARGE";

function compression(name: string, compress: Convert, decompress: Convert): Compression {
  return {
    name,
    compress: async (bytes) => (await compress(bytes, {})) as Uint8Array<ArrayBuffer>,
    async decompress(bytes, readMaxBytes) {
      if (bytes.length === 0) return new Uint8Array();
      try {
        return (await decompress(bytes, { maxOutputLength: readMaxBytes })) as Uint8Array<ArrayBuffer>;
      } catch (cause) {
        const isTooLarge = (cause as NodeJS.ErrnoException).code === TOO_LARGE;
        throw isTooLarge
          ? new ConnectError(`a message of more than readMaxBytes (${readMaxBytes})`, Code.ResourceExhausted)
          : new ConnectError(`a message is not valid ${name}`, Code.InvalidArgument, undefined, undefined, cause);
      }
    },
  };
}

/** gzip, by Node's zlib. */
export const compressionGzip: Compression = compression("gzip", promisify(zlib.gzip), promisify(zlib.gunzip));

/** Brotli ("br"), by Node's zlib. */
export const compressionBrotli: Compression = compression(
  "br",
  promisify(zlib.brotliCompress),
  promisify(zlib.brotliDecompress),
);

/** What both ends accept unless they are told otherwise. */
export const defaultCompressions: readonly Compression[] = [compressionGzip, compressionBrotli];
