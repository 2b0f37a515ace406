/** A gRPC frame: one byte that says whether the message is compressed, its length, the message. */
export function grpcFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafeSlow(5 + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, 5);
  return frame;
}

/** The only message of a response body; undefined where the body isn't one uncompressed message. */
export function onlyMessage(body: Uint8Array): Uint8Array | undefined {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  if (body.length < 5 || body[0] !== 0 || view.getUint32(1) !== body.length - 5) return undefined;
  return body.subarray(5);
}
