import {
  BytesTally,
  type Catalog,
  type CountWritten,
  countsFormIn,
  countWritten,
  type EventLog,
  HEADER,
  type LoadRecord,
  type NewEntry,
  type ReplayStep,
  recordBytes,
  TOPIC,
} from '@tributary/core';

/** Appends records of loads and of the progress of backfills; the stage `history` stores them. Their bytes are counted. */
export class LoadRecords {
  readonly #log: Pick<EventLog, 'append'>;
  readonly #catalog: Pick<Catalog, 'state' | 'position'>;
  readonly #count: CountWritten;

  constructor(log: Pick<EventLog, 'append'>, catalog: Pick<Catalog, 'state' | 'position'>) {
    this.#log = log;
    this.#catalog = catalog;
    this.#count = countWritten(log, () => countsFormIn(catalog.state));
  }

  append(record: LoadRecord): Promise<void> {
    return this.#append(TOPIC.loads, record.destination_id, record.workspace_id, record);
  }

  appendStep(step: ReplayStep): Promise<void> {
    const headers = { [HEADER.replay]: step.replay_id };
    return this.#append(TOPIC.replays, step.replay_id, step.workspace_id, step, headers);
  }

  async #append(
    topic: string,
    key: string,
    workspaceId: string,
    value: object,
    more: NewEntry['headers'] = {},
  ): Promise<void> {
    const headers = {
      [HEADER.catalogPosition]: String(this.#catalog.position),
      [HEADER.workspaceId]: workspaceId,
      ...more,
    };
    const entry = { key, value: JSON.stringify(value), headers };
    await this.#log.append(topic, [entry]);
    const bytes = new BytesTally();
    bytes.written(workspaceId, recordBytes(entry));
    await this.#count(bytes);
  }
}
