import { EVENT_TYPES, type EventType, type JsonObject, VIOLATION_KINDS } from '@tributary/core';
import { type Static, type TSchema, Type } from 'typebox';
import { documentedAs } from '../resources/documented.ts';
import { closed, listOf, nullable, oneOf } from '../resources/schemas.ts';
import { DATE_OR_TIME } from '../resources/values.ts';

/** The types of the platform API's own events; the Segment API takes all. */
export const NATIVE_TYPES = ['track', 'identify', 'page', 'group'] as const satisfies readonly EventType[];
type NativeType = (typeof NATIVE_TYPES)[number];

/** One event as a producer sends it. `null` means the same as absent. */
export interface EventBody {
  readonly message_id?: string | null;
  readonly user_id?: string | null;
  readonly anonymous_id?: string | null;
  readonly timestamp?: string | null;
  readonly context?: JsonObject | null;
  readonly event?: string;
  readonly properties?: JsonObject | null;
  readonly name?: string | null;
  readonly category?: string | null;
  readonly traits?: JsonObject | null;
  readonly group_id?: string;
  readonly previous_id?: string | null;
  readonly integrations?: JsonObject | null;
}

const MAX_MESSAGE_ID = 100;

const text = (description: string) => Type.String({ minLength: 1, description });
const optionalText = (description: string, options: object = {}) =>
  Type.Optional(
    Type.Unsafe<string | null>({ type: ['string', 'null'], minLength: 1, description, ...options }),
  );
const optionalObject = (description: string) =>
  Type.Optional(Type.Unsafe<JsonObject | null>({ type: ['object', 'null'], description }));

const common = {
  message_id: optionalText('Identifies the event; a repeated one is dropped. Assigned when absent.', {
    maxLength: MAX_MESSAGE_ID,
  }),
  user_id: optionalText('The subject. This or `anonymous_id` is required.'),
  anonymous_id: optionalText('The subject while its `user_id` is unknown.'),
  timestamp: optionalText(
    'When it happened, ISO 8601; without a zone it is UTC. Kept as RFC 3339 in UTC with milliseconds. Default: the server’s time.',
    documentedAs({ anyOf: [...DATE_OR_TIME.anyOf, { type: 'null' }] }),
  ),
  context: optionalObject('Circumstances: device, location, library.'),
};

const fields: Readonly<Record<NativeType, Readonly<Record<string, TSchema>>>> = {
  track: { event: text('The name of the event.'), properties: optionalObject('Facts about the action.') },
  identify: { traits: optionalObject('Facts about the user.') },
  page: {
    name: optionalText('The page’s name.', { minLength: 0 }),
    properties: optionalObject('Facts about the view: url, title, referrer.'),
  },
  group: {
    group_id: text('The group the user belongs to.'),
    traits: optionalObject('Facts about the group.'),
  },
};

/** At least one of the two is required. */
const SUBJECT = {
  anyOf: ['user_id', 'anonymous_id'].map((id) => ({
    required: [id],
    properties: { [id]: { type: 'string' } },
  })),
};

/** The body of one event of a type. */
export const eventBodies: Readonly<Record<NativeType, TSchema>> = {
  track: eventBody('track', 'TrackEvent', {
    event: 'Order Placed',
    user_id: 'ada',
    properties: { order_id: 'o-1', total: 12.5 },
  }),
  identify: eventBody('identify', 'IdentifyEvent', { user_id: 'ada', traits: { email: 'ada@example.com' } }),
  page: eventBody('page', 'PageEvent', {
    anonymous_id: 'a-1',
    name: 'Home',
    properties: { url: 'https://example.com/' },
  }),
  group: eventBody('group', 'GroupEvent', { user_id: 'ada', group_id: 'engines', traits: { plan: 'pro' } }),
};

function eventBody(type: NativeType, title: string, example: EventBody): TSchema {
  return closed({ ...fields[type], ...common }, { title, examples: [example], ...documentedAs(SUBJECT) });
}

/** The schemas of items of a batch, by their `type`. */
export type ItemSchemas = Readonly<Partial<Record<EventType, TSchema>>>;

/** One event of the platform API with its `type`. */
export const batchItems: ItemSchemas = Object.fromEntries(
  NATIVE_TYPES.map((type) => [type, itemOf(type, fields[type])]),
);

const view = { ...fields.page, category: optionalText('Its category.', { minLength: 0 }) };

/** An event of any type, with the fields that calls of the Segment API have besides. */
export const callItems: Readonly<Record<EventType, TSchema>> = {
  track: callItem('track', fields.track),
  identify: callItem('identify', fields.identify),
  page: callItem('page', view),
  screen: callItem('screen', view),
  group: callItem('group', fields.group),
  alias: callItem('alias', {
    ...fields.identify,
    previous_id: optionalText('The id of the user before.'),
  }),
};

function callItem(type: EventType, own: Readonly<Record<string, TSchema>>): TSchema {
  return itemOf(type, { ...own, integrations: optionalObject('Which destinations receive it.') });
}

function itemOf(type: EventType, own: Readonly<Record<string, TSchema>>): TSchema {
  return Type.Object({ type: Type.Literal(type), ...own, ...common }, { additionalProperties: false });
}

/** The types of items that schemas take, in words. */
export function typesIn(schemas: ItemSchemas): string {
  return EVENT_TYPES.filter((type) => schemas[type] !== undefined).join(', ');
}

/** Events of one batch at most. */
export const MAX_BATCH = 2_500;

export const batchBody = Type.Object(
  {
    batch: Type.Array(Type.Unknown(), {
      maxItems: MAX_BATCH,
      description: 'Events of any type, each with its `type`.',
    }),
  },
  {
    title: 'Batch',
    additionalProperties: false,
    examples: [{ batch: [{ type: 'track', event: 'Order Placed', user_id: 'ada' }] }],
  },
);
export type BatchBody = Static<typeof batchBody>;

export const ingestQuery = Type.Object(
  {
    check: Type.Optional(
      Type.Literal('contract', {
        description: 'Evaluate the contract first, and store nothing when it blocks the event.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type IngestQuery = Static<typeof ingestQuery>;

export const receivedAnswer = Type.Object(
  {
    message_id: Type.String(),
    status: Type.Literal('received'),
  },
  { title: 'EventReceived' },
);

const detail = Type.Object({ path: Type.String(), message: Type.String() });

/** The 400 response to one event. */
export const blockedAnswer = Type.Object(
  {
    error: Type.String({ description: '`invalid request`, or `event blocked` by its contract.' }),
    details: Type.Optional(listOf(detail)),
    violations: Type.Optional(
      listOf(
        Type.Object({
          kind: oneOf(VIOLATION_KINDS),
          path: Type.String(),
          message: Type.String(),
          action: oneOf(['warned', 'omitted', 'blocked']),
        }),
        'The violations of the contract.',
      ),
    ),
  },
  { description: 'The event is invalid, or its contract blocks it. Nothing was stored.' },
);

const unconfirmed = 'Not confirmed: it may exist. Send it again with the same message_id.';

/** The 503 response to one event. */
export const unconfirmedAnswer = Type.Object(
  {
    error: Type.String(),
    message_id: Type.Optional(Type.String({ description: 'The id to send it again with.' })),
  },
  { description: unconfirmed },
);

const rejectedItems = Type.Array(
  Type.Object({
    index: Type.Integer({ description: 'Place in the batch, from 0.' }),
    error: Type.String(),
    details: Type.Array(detail),
  }),
);

export const batchAnswer = Type.Object(
  {
    accepted: Type.Integer({ description: 'How many are durable now.', examples: [1] }),
    rejected: rejectedItems,
  },
  { title: 'BatchReceived' },
);

/** The 503 response to a batch. */
export const unconfirmedBatchAnswer = Type.Object(
  {
    error: Type.String(),
    message_ids: Type.Optional(
      listOf(nullable(Type.String()), 'The id of each item to send it again with; null for a rejected one.'),
    ),
    rejected: Type.Optional(rejectedItems),
  },
  { description: unconfirmed },
);
