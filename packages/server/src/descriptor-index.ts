import { type DescFile, type DescMessage, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

/** Finds the files that declare what a server serves, by name and by symbol. */
export class DescriptorIndex {
  readonly #byName = new Map<string, DescFile>();
  readonly #bySymbol = new Map<string, DescFile>();

  /** The files, and all that they import. */
  constructor(files: readonly DescFile[]) {
    for (const file of files) this.#add(file);
  }

  byName(name: string): DescFile | undefined {
    return this.#byName.get(name);
  }

  /** By the fully qualified name of a service, method, message, field, oneof, enum or enum value. */
  bySymbol(name: string): DescFile | undefined {
    return this.#bySymbol.get(name.startsWith(".") ? name.slice(1) : name);
  }

  hasMessage(name: string): boolean {
    const file = this.bySymbol(name);
    return file !== undefined && messagesOf(file.messages).some(({ typeName }) => typeName === name);
  }

  /** Encoded descriptors of a file and of all that it imports, each once, the file first. */
  encoded(file: DescFile): Uint8Array[] {
    const needed = new Set([file]);
    // A set gives what is added while it is walked.
    for (const each of needed) for (const imported of each.dependencies) needed.add(imported);
    return [...needed].map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
  }

  #add(file: DescFile): void {
    const name = file.proto.name;
    if (this.#byName.has(name)) return;
    this.#byName.set(name, file);
    const symbols = this.#bySymbol;
    for (const service of file.services) {
      symbols.set(service.typeName, file);
      for (const method of service.methods) symbols.set(`${service.typeName}.${method.name}`, file);
    }
    const messages = messagesOf(file.messages);
    for (const message of messages) {
      symbols.set(message.typeName, file);
      for (const member of message.members) symbols.set(`${message.typeName}.${member.name}`, file);
    }
    for (const { typeName, values } of [...file.enums, ...messages.flatMap(({ nestedEnums }) => nestedEnums)]) {
      symbols.set(typeName, file);
      // Values of an enum stand beside it, not in it.
      const scope = typeName.slice(0, typeName.lastIndexOf(".") + 1);
      for (const value of values) symbols.set(`${scope}${value.name}`, file);
    }
    for (const imported of file.dependencies) this.#add(imported);
  }
}

function messagesOf(messages: readonly DescMessage[]): DescMessage[] {
  return messages.flatMap((message) => [message, ...messagesOf(message.nestedMessages)]);
}
