import {
  type EventLog,
  type NewEntry,
  type Position,
  type ReadOptions,
  type ReadResult,
  type Stage,
  type StageProgress,
  type StageReads,
  type StageRun,
  Unavailable,
} from '@tributary/core';

/** A real log with injected engine failures: no answer, or a transient error. */
export class TroubledLog implements EventLog {
  readonly #log: EventLog;
  /** Every call fails with `Unavailable`. */
  failing = false;
  /** Reads answer only once this is false again, or fail when aborted. */
  silentReads = false;
  /** The number of facts lost at the end of the log. */
  lost = 0;

  constructor(log: EventLog) {
    this.#log = log;
  }

  get topics() {
    return this.#log.topics;
  }

  createTopics(): Promise<readonly string[]> {
    return this.#log.createTopics();
  }

  async append(topic: string, entries: readonly NewEntry[]): Promise<readonly Position[]> {
    this.#check();
    return this.#log.append(topic, entries);
  }

  async read(topic: string, partition: number, from: number, options: ReadOptions = {}): Promise<ReadResult> {
    this.#check();
    const result = await this.#log.read(topic, partition, from, options);
    while (this.silentReads && !options.signal?.aborted)
      await new Promise((resolve) => setTimeout(resolve, 5));
    this.#check();
    return result;
  }

  async end(topic: string, partition: number): Promise<number> {
    this.#check();
    return (await this.#log.end(topic, partition)) - this.lost;
  }

  async first(topic: string, partition: number): Promise<number> {
    this.#check();
    return this.#log.first(topic, partition);
  }

  async offsetAt(topic: string, partition: number, ms: number): Promise<number> {
    this.#check();
    return this.#log.offsetAt(topic, partition, ms);
  }

  async positionOf(stage: string, topic: string, partition: number): Promise<number | undefined> {
    this.#check();
    return this.#log.positionOf(stage, topic, partition);
  }

  async progress(stages: readonly StageReads[]): Promise<readonly StageProgress[]> {
    this.#check();
    return this.#log.progress(stages);
  }

  async dropBelow(topic: string, partition: number, offset: number): Promise<void> {
    this.#check();
    return this.#log.dropBelow(topic, partition, offset);
  }

  run(stage: Stage): Promise<StageRun> {
    return this.#log.run(stage);
  }

  close(): Promise<void> {
    return this.#log.close();
  }

  #check(): void {
    if (this.failing) throw new Unavailable('troubled');
  }
}
