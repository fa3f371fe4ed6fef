import { type Created, type ListField, type Listing, type ListOrder, listPositionOf } from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type TProperties, type TSchema, Type } from 'typebox';
import { documentedAs } from './documented.ts';
import {
  decodePosition,
  encodePosition,
  linkNext,
  NEWEST_FIRST,
  pageQuery,
  pageRequest,
} from './pagination.ts';
import { closed, oneOf } from './schemas.ts';
import { idsText, parseIds } from './values.ts';

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

/** A filter by one of some words. */
export function byWord<Item>(
  words: readonly string[],
  description: string,
  wordOf: (item: Item) => string | null,
): ListFilter<Item> {
  return { schema: oneOf(words, description), matches: (item, value) => wordOf(item) === value };
}

/** A filter by yes or no. */
export function byFlag<Item>(description: string, flagOf: (item: Item) => boolean): ListFilter<Item> {
  return byWord(['true', 'false'], description, (item) => String(flagOf(item)));
}

/** A filter by an id. */
export function byId<Item>(description: string, idOf: (item: Item) => string | null): ListFilter<Item> {
  return {
    schema: Type.String({ format: 'uuid', description }),
    matches: (item, value) => idOf(item) === value.toLowerCase(),
  };
}

/** A filter by a text that has to match exactly. */
export function byText<Item>(description: string, textOf: (item: Item) => string | null): ListFilter<Item> {
  return {
    schema: Type.String({ minLength: 1, maxLength: 200, description }),
    matches: (item, value) => textOf(item) === value,
  };
}

interface CatalogListOptions<Item, Own extends TProperties> {
  /** The text of an item that `q` is searched in. */
  textOf(item: Item): string;
  readonly textDescription?: string;
  readonly fields: readonly ListField[];
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
  textOf,
  textDescription = 'Part of the name, in any case.',
  fields,
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
