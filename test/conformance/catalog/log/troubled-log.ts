import {
  type EventLog,
  type NewEntry,
  type Position,
  type ReadOptions,
  type ReadResult,
  type Stage,
  type StageRun,
  Unavailable,
} from '@tributary/core';

/** A real log that can be made to fail as engines do: no answer, or an error that passes. */
export class TroubledLog implements EventLog {
  readonly #log: EventLog;
  /** Every call is `Unavailable`. */
  failing = false;
  /** Reads answer only after this is false again, or they are aborted. */
  silentReads = false;
  /** It ends so much earlier than it did: facts were lost. */
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
