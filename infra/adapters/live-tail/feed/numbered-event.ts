import type { KeptEvent } from '@tributary/core';

/**
 * An event by its number in its tail. Numbers grow by one, from one; an era is one life of a tail, as an engine that
 * forgets a tail begins it anew. An id is `<era>-<engine's own>-<number>`.
 */
export interface NumberedEvent extends KeptEvent {
  readonly era: string;
  readonly number: number;
}

const ID = /^([0-9a-z]{1,20})-[0-9a-z]{1,20}-(\d{1,15})$/;

export function idOf(era: string, own: string | number, number: number): string {
  return `${era}-${own}-${number}`;
}

/** Era and number of an id; undefined for a text that is none. */
export function parseId(id: string): { readonly era: string; readonly number: number } | undefined {
  const [, era, number] = ID.exec(id) ?? [];
  return era === undefined || number === undefined ? undefined : { era, number: Number(number) };
}
