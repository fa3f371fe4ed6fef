import { type Created, InvalidInput, type Listing } from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { invalidRequest } from '../errors/api-error.ts';
import { type IntegerRule, integerText, parseInteger } from './values.ts';

const LIMIT: IntegerRule = { name: 'limit', min: 1, max: 1_000, fallback: 100 };

/** Query parameters of every list. */
export const pageQuery = {
  limit: integerText(LIMIT, 'Items of a page.'),
  cursor: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1_000,
      description: 'From the `Link` header of the page before.',
    }),
  ),
};

export interface PageRequest {
  readonly limit: number;
  readonly cursor: string | undefined;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  /** The cursor of the next page; undefined on the last. */
  readonly next: string | undefined;
}

/** Reads the parameters of a list; 400 for a limit out of bounds. */
export function pageRequest(query: { limit?: string; cursor?: string }): PageRequest {
  const limit = parseInteger(query.limit, LIMIT);
  return { limit, cursor: query.cursor };
}

/**
 * One page of a catalog listing, newest first. The cursor is a place in that order, not an item, so it stays valid when
 * the item is deleted. Only the items of the page are read.
 */
export function pageOf<Item extends Created>(
  listing: Listing<Item>,
  { limit, cursor }: PageRequest,
): Page<Item> {
  const items: Item[] = [];
  for (const item of listing.newestFirst(cursor === undefined ? undefined : decode(cursor))) {
    const last = items.at(-1);
    if (items.length === limit && last !== undefined) return { items, next: encode(last) };
    items.push(item);
  }
  return { items, next: undefined };
}

const PLACE = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z) ([0-9a-f-]{36})$/;

function encode({ created_at, id }: Created): string {
  return Buffer.from(`${created_at} ${id}`).toString('base64url');
}

function decode(cursor: string): Created {
  const [, created_at, id] = PLACE.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (created_at === undefined || id === undefined) throw badCursor();
  return { created_at, id };
}

function badCursor() {
  return invalidRequest({ path: 'cursor', message: 'is not a cursor of this list' });
}

/** Runs a query with a cursor. 400 for a cursor that the engine does not know. */
export async function withCursor<Answer>(query: () => Promise<Answer>): Promise<Answer> {
  try {
    return await query();
  } catch (error) {
    if (error instanceof InvalidInput) throw badCursor();
    throw error;
  }
}

/** Sets the `Link` header to the next page: the same query with another cursor. */
export function linkNext(request: FastifyRequest, reply: FastifyReply, next: string | undefined): void {
  if (next === undefined) return;
  const [path = '', query = ''] = request.url.split('?', 2);
  const parameters = new URLSearchParams(query);
  parameters.set('cursor', next);
  reply.header('link', `<${path}?${parameters}>; rel="next"`);
}
