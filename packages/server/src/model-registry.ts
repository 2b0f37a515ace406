import { quote, ServerError } from "./server-error.ts";

export interface Named {
  readonly name: string;
  readonly version: string;
}

/** The models a server has, by name and version. */
export class ModelRegistry<Model extends Named> {
  readonly #models = new Map<string, Model[]>();
  /** The versions of the only name there is; requests mostly name none, and looking through the map for it costs an iterator. */
  #only: readonly Model[] | undefined = undefined;
  #size = 0;

  /** Throws `invalid_options` if the model is there already. */
  add(model: Model): void {
    const versions = this.#models.get(model.name) ?? [];
    if (versions.some(({ version }) => version === model.version)) {
      throw new ServerError(
        "invalid_options",
        `model ${quote(model.name)} version ${quote(model.version)} is given twice: expected distinct models`,
      );
    }
    versions.push(model);
    this.#models.set(model.name, versions);
    this.#only = this.#models.size === 1 ? versions : undefined;
    this.#size++;
  }

  get all(): readonly Model[] {
    return [...this.#models.values()].flat();
  }

  /**
   * The model a request names. An empty name means the server's only model, an empty version the one added last.
   * Throws `not_found`, or `invalid_argument` if the name is empty and there are several models.
   */
  resolve(name: string, version: string): Model {
    let versions: readonly Model[] | undefined;
    if (name === "" && this.#only !== undefined) versions = this.#only;
    else if (name === "" && this.#size > 0) {
      throw new ServerError("invalid_argument", `no model is named: expected one of ${this.#list()}`);
    } else versions = this.#models.get(name);
    if (versions === undefined) {
      const there = this.#size === 0 ? "the server has none" : `the server has ${this.#list()}`;
      throw new ServerError("not_found", `unknown model ${quote(name)}: ${there}`);
    }
    const model = version === "" ? versions.at(-1) : versions.find((candidate) => candidate.version === version);
    if (model !== undefined) return model;
    const there = versions.map((candidate) => quote(candidate.version)).join(", ");
    throw new ServerError(
      "not_found",
      `unknown version ${quote(version)} of model ${quote((versions[0] as Model).name)}: the server has ${there}`,
    );
  }

  #list(): string {
    return [...this.#models.keys()].map(quote).join(", ");
  }
}
