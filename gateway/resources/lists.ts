import {
  type Created,
  defined,
  InvalidInput,
  type ListField,
  type Listing,
  type ListOrder,
  type ListPosition,
  listPositionOf,
} from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type TProperties, type TSchema, Type } from 'typebox';
import { invalidRequest } from '../errors/api-error.ts';
import {
  closed,
  documentedAs,
  type IntegerRule,
  idsText,
  integerText,
  oneOf,
  parseIds,
  parseInteger,
  string,
} from './schemas.ts';

/** Items that one page looks at: more than the default quotas allow of anything. A page that ends here may be short. */
const LOOKED_AT = 20_000;
/** Items that are counted at most. */
const COUNTED = 100_000;

/** The header with the number of all items that match. */
const TOTAL_COUNT = 'x-total-count';

/** A query parameter, and which items it selects. */
interface ListFilter<Item> {
  readonly schema: TSchema;
  matches(item: Item, value: string): boolean;
}

/** A filter by one of some words, of which an item has one or several. */
export function byWord<Item>(
  words: readonly string[],
  description: string,
  wordsOf: (item: Item) => string | readonly string[],
): ListFilter<Item> {
  return {
    schema: oneOf(words, description),
    matches: (item, value) => [wordsOf(item)].flat().includes(value),
  };
}

export function byFlag<Item>(description: string, flagOf: (item: Item) => boolean): ListFilter<Item> {
  return byWord(['true', 'false'], description, (item) => String(flagOf(item)));
}

export function byId<Item>(description: string, idOf: (item: Item) => string | null): ListFilter<Item> {
  return {
    schema: string(description, 'uuid'),
    matches: (item, value) => idOf(item) === value.toLowerCase(),
  };
}

export function byText<Item>(description: string, textOf: (item: Item) => string | null): ListFilter<Item> {
  return {
    schema: Type.String({ minLength: 1, maxLength: 200, description }),
    matches: (item, value) => textOf(item) === value,
  };
}

interface CatalogListOptions<Item, Own extends TProperties> {
  /** The text of an item that `q` is searched in. Default: its name. */
  textOf?(item: Item): string;
  readonly textDescription?: string;
  /** Default: `name` and the times. */
  readonly fields?: readonly ListField[];
  readonly filters: Readonly<Record<string, ListFilter<Item>>>;
  /** Query parameters that the route reads itself. */
  readonly own?: Own;
}

type ListQuery = Readonly<Record<string, string | undefined>>;

/** A list of catalog entities: its query parameters, and how a page is read. */
export interface CatalogList<Item extends Created, Own extends TProperties> {
  readonly querystring: ReturnType<typeof closed<typeof pageQuery & Own>>;
  /**
   * The items of the requested page. Sets the headers `Link` and, where it was asked for, `X-Total-Count`. `isSelected`: a
   * filter of the route's own.
   */
  read(
    request: Pick<FastifyRequest, 'query' | 'url'>,
    reply: Pick<FastifyReply, 'header'>,
    listing: Listing<Item> & { readonly size?: number },
    isSelected?: (item: Item) => boolean,
  ): readonly Item[];
}

/**
 * For the items of a kind, a function that makes their list (of two calls, so that the filters know the kind).
 *
 * Lists are read in an index and from the position of the cursor on. Filters look at the items one by one, which is bounded by
 * the quotas of the catalog, and by `LOOKED_AT`.
 */
export function catalogList<Item extends Created>() {
  return <Own extends TProperties = Record<never, never>>(
    options: CatalogListOptions<Item, Own>,
  ): CatalogList<Item, Own> => createList(options);
}

function createList<Item extends Created, Own extends TProperties>({
  textOf = (item) => ('name' in item ? String(item.name) : ''),
  textDescription = 'Part of the name, in any case.',
  fields = ['name', 'created_at', 'updated_at'],
  filters,
  own,
}: CatalogListOptions<Item, Own>): CatalogList<Item, Own> {
  const sorts = fields.flatMap((field) => [field, `-${field}`]);
  const querystring = closed({
    ...pageQuery,
    q: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: textDescription })),
    sort: Type.Optional(
      Type.Unsafe<string>({
        ...oneOf(sorts, 'The order; with `-` the last comes first. Default `-created_at`: newest first.'),
        ...documentedAs({ default: '-created_at' }),
      }),
    ),
    ids: Type.Optional(idsText('Only those with these ids', 'others')),
    count: Type.Optional(
      oneOf(['true', 'false'], 'Whether `X-Total-Count` states how many match on all pages. Default false.'),
    ),
    ...Object.fromEntries(Object.entries(filters).map(([name, { schema }]) => [name, Type.Optional(schema)])),
    ...(own ?? {}),
  });

  /** Undefined when all items match. */
  function filterOf(
    query: ListQuery,
    isSelected: ((item: Item) => boolean) | undefined,
  ): ((item: Item) => boolean) | undefined {
    const conditions: ((item: Item) => boolean)[] = Object.entries(filters).flatMap(([name, { matches }]) => {
      const value = query[name];
      return value === undefined ? [] : [(item: Item) => matches(item, value)];
    });
    if (isSelected !== undefined) conditions.push(isSelected);
    if (query.q !== undefined) {
      const part = query.q.toLowerCase();
      conditions.push((item) => textOf(item).toLowerCase().includes(part));
    }
    if (query.ids !== undefined) {
      const ids = parseIds(query.ids);
      conditions.push(({ id }) => ids.has(id));
    }
    return conditions.length === 0 ? undefined : (item) => conditions.every((holds) => holds(item));
  }

  return {
    querystring: querystring as unknown as CatalogList<Item, Own>['querystring'],
    read(request, reply, listing, isSelected) {
      const query = request.query as ListQuery;
      const { limit, cursor } = pageRequest(query);
      const order = orderOf(query.sort);
      const matches = filterOf(query, isSelected);
      const after = cursor === undefined ? undefined : decodePosition(cursor, order);
      const items: Item[] = [];
      let last: Item | undefined;
      let lookedAt = 0;
      for (const item of listing.inOrder(order, after)) {
        if (last !== undefined && (items.length === limit || lookedAt === LOOKED_AT)) {
          linkNext(request, reply, encodePosition(listPositionOf(last, order.field), order));
          break;
        }
        lookedAt++;
        last = item;
        if (matches?.(item) ?? true) items.push(item);
      }
      if (query.count === 'true') reply.header(TOTAL_COUNT, countOf(listing, matches));
      return items;
    },
  };
}

/** A number, with `+` behind it where there may be more. */
function countOf<Item extends Created>(
  listing: Listing<Item> & { readonly size?: number },
  matches: ((item: Item) => boolean) | undefined,
): string {
  if (matches === undefined && listing.size !== undefined) return String(listing.size);
  let [matching, lookedAt] = [0, 0];
  for (const item of listing.newestFirst()) {
    if (lookedAt === COUNTED) return `${matching}+`;
    lookedAt++;
    if (matches?.(item) ?? true) matching++;
  }
  return String(matching);
}

function orderOf(sort: string | undefined): ListOrder {
  if (sort === undefined) return NEWEST_FIRST;
  const descending = sort.startsWith('-');
  return { field: (descending ? sort.slice(1) : sort) as ListField, descending };
}

const LIMIT: IntegerRule = { name: 'limit', min: 1, max: 1_000, fallback: 100 };

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
  readonly cursor?: string;
}

/** Reads the parameters of a list; 400 for a limit out of bounds. */
export function pageRequest(query: { limit?: string; cursor?: string }): PageRequest {
  return { limit: parseInteger(query.limit, LIMIT), ...defined({ cursor: query.cursor }) };
}

export const NEWEST_FIRST: ListOrder = { field: 'created_at', descending: true };

/** The form of cursors of the default order, which earlier releases hand out and take. */
const BY_CREATION = /^(?<key>\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z) (?<id>[0-9a-f-]{36})$/;
/** That of all others: the order, then the position. */
const BY_ORDER = /^(?<sort>-?[a-z_]+) (?<id>[0-9a-f-]{36}) (?<key>.*)$/s;

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
