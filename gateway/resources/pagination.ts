import { InvalidInput, type ListOrder, type ListPosition } from '@tributary/core';
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
      maxLength: 2_000,
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

/** The order of lists that state no other. */
export const NEWEST_FIRST: ListOrder = { field: 'created_at', descending: true };

/** The form of cursors of the default order, which earlier releases hand out and take. */
const BY_CREATION = /^(?<key>\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z) (?<id>[0-9a-f-]{36})$/;
/** That of all others: the order, then the position. */
const BY_ORDER = /^(?<sort>-?[a-z_]+) (?<id>[0-9a-f-]{36}) (?<key>.*)$/s;

/** A position in a list as a cursor. */
export function encodePosition({ key, id }: ListPosition, order: ListOrder): string {
  const text = isDefault(order) ? `${key} ${id}` : `${sortOf(order)} ${id} ${key}`;
  return Buffer.from(text).toString('base64url');
}

/** 400 for anything that is not a cursor of this order. */
export function decodePosition(cursor: string, order: ListOrder): ListPosition {
  const text = Buffer.from(cursor, 'base64url').toString();
  const { sort, key, id } = (isDefault(order) ? BY_CREATION : BY_ORDER).exec(text)?.groups ?? {};
  if (key === undefined || id === undefined) throw badCursor();
  if (sort !== undefined && sort !== sortOf(order)) throw badCursor();
  return { key, id };
}

function isDefault({ field, descending }: ListOrder): boolean {
  return field === NEWEST_FIRST.field && descending;
}

function sortOf({ field, descending }: ListOrder): string {
  return descending ? `-${field}` : field;
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
export function linkNext(
  request: Pick<FastifyRequest, 'url'>,
  reply: Pick<FastifyReply, 'header'>,
  next: string | undefined,
): void {
  if (next === undefined) return;
  const [path = '', query = ''] = request.url.split('?', 2);
  const parameters = new URLSearchParams(query);
  parameters.set('cursor', next);
  reply.header('link', `<${path}?${parameters}>; rel="next"`);
}
