/** The variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Resolves to the exit code once it is done. */
export type Run = (args: readonly string[], environment: Environment) => Promise<number>;

/** A command of `tributary`. */
export interface Command {
  readonly summary: string;
  /** Brings what it runs. */
  load(): Promise<Run>;
}
