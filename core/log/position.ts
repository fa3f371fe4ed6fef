/** Where one entry stands in the log. `index` counts the entries inside one record; 0 when it holds one. */
export interface Position {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly index: number;
}

/** The form used in headers, stores and logs: `topic/partition/offset/index`. */
export function formatPosition(position: Position): string {
  return `${position.topic}/${position.partition}/${position.offset}/${position.index}`;
}

/** The position that `formatPosition` wrote; undefined for any other text. */
export function parsePosition(text: string): Position | undefined {
  const [, topic, partition, offset, index] =
    /^([^/]+)\/(\d{1,10})\/(\d{1,16})\/(\d{1,10})$/.exec(text) ?? [];
  if (topic === undefined) return undefined;
  return { topic, partition: Number(partition), offset: Number(offset), index: Number(index) };
}
