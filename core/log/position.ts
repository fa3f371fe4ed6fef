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
