/** A memory; what is seen of it changes when it grows, unless it is shared. */
export interface WasmMemory {
  readonly buffer: ArrayBufferLike;
  /** Adds pages of 64 KiB. */
  grow(pages: number): number;
}

/** A compiled module. */
export interface WasmModule {
  readonly [Symbol.toStringTag]: string;
}

interface WebAssemblyApi {
  readonly Memory: new (limits: { initial: number; maximum?: number; shared?: boolean }) => WasmMemory;
  readonly Module: new (bytes: Uint8Array<ArrayBuffer>) => WasmModule;
  readonly Instance: new (
    module: WasmModule,
    imports: Readonly<Record<string, Readonly<Record<string, WasmMemory>>>>,
  ) => { readonly exports: Readonly<Record<string, unknown>> };
}

/** The part of the WebAssembly API that is used: its types come with the DOM's only. `undefined` where it is switched off. */
const webAssembly: WebAssemblyApi | undefined = (globalThis as unknown as { readonly WebAssembly?: WebAssemblyApi })
  .WebAssembly;

/** The WebAssembly API, or an error that says it is missing. */
export function requireWebAssembly(): WebAssemblyApi {
  if (webAssembly === undefined) throw new Error("this JavaScript engine runs without WebAssembly");
  return webAssembly;
}
