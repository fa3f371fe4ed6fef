import type { DocumentSource, StoredDocument } from './documents.ts';

/** What is kept of a publisher: the number up to which its changes are published. */
export interface Publisher {
  readonly published: number;
}

export function publisherId(id: string): string {
  return `i:${id}`;
}

/** `aliveAt`: epoch ms; 0 once it has ended. */
export function publisherSource(publisher: Publisher, aliveAt: number): DocumentSource {
  return { state: 'publisher', updated_ts: aliveAt, body: JSON.stringify(publisher) };
}

export function parsePublisher({ source }: StoredDocument): Publisher {
  return JSON.parse(source.body) as Publisher;
}
