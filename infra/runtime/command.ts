/** The variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A command of `tributary`. Resolves to the exit code once it is done. */
export interface Command {
  readonly summary: string;
  run(args: readonly string[], environment: Environment): Promise<number>;
}
