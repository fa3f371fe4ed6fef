import type { EventType, JsonObject } from '@tributary/core';
import { type Static, type TSchema, Type } from 'typebox';

/** What a producer sends for one event. `null` means the same as absent. */
export interface EventBody {
  readonly message_id?: string | null;
  readonly user_id?: string | null;
  readonly anonymous_id?: string | null;
  readonly timestamp?: string | null;
  readonly context?: JsonObject | null;
  readonly event?: string;
  readonly properties?: JsonObject | null;
  readonly name?: string | null;
  readonly traits?: JsonObject | null;
  readonly group_id?: string;
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
  user_id: optionalText('Who it is about. This or `anonymous_id` is needed.'),
  anonymous_id: optionalText('Who it is about, while unknown.'),
  timestamp: optionalText('When it happened, ISO 8601. Default: the server’s time.'),
  context: optionalObject('Circumstances: device, location, library.'),
};

const fields: Readonly<Record<EventType, Readonly<Record<string, TSchema>>>> = {
  track: { event: text('What was done.'), properties: optionalObject('Facts about the action.') },
  identify: { traits: optionalObject('Facts about the user.') },
  page: {
    name: optionalText('The page’s name.'),
    properties: optionalObject('Facts about the view: url, title, referrer.'),
  },
  group: {
    group_id: text('The group the user belongs to.'),
    traits: optionalObject('Facts about the group.'),
  },
};

/** The body of one event of a type. */
export const eventBodies: Readonly<Record<EventType, TSchema>> = {
  track: Type.Object({ ...fields.track, ...common }, { additionalProperties: false }),
  identify: Type.Object({ ...fields.identify, ...common }, { additionalProperties: false }),
  page: Type.Object({ ...fields.page, ...common }, { additionalProperties: false }),
  group: Type.Object({ ...fields.group, ...common }, { additionalProperties: false }),
};

/** The same with its `type`, as an item of a batch. */
export const batchItems: Readonly<Record<EventType, TSchema>> = {
  track: batchItem('track'),
  identify: batchItem('identify'),
  page: batchItem('page'),
  group: batchItem('group'),
};

function batchItem(type: EventType): TSchema {
  return Type.Object(
    { type: Type.Literal(type), ...fields[type], ...common },
    { additionalProperties: false },
  );
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
  { additionalProperties: false },
);
export type BatchBody = Static<typeof batchBody>;

export const ingestQuery = Type.Object(
  {
    check: Type.Optional(
      Type.Literal('contract', { description: 'Judge by the contract first; store nothing when blocked.' }),
    ),
  },
  { additionalProperties: false },
);
export type IngestQuery = Static<typeof ingestQuery>;

export const receivedAnswer = Type.Object({
  message_id: Type.String(),
  status: Type.Literal('received'),
});

const detail = Type.Object({ path: Type.String(), message: Type.String() });

export const batchAnswer = Type.Object({
  accepted: Type.Integer({ description: 'How many are durable now.' }),
  rejected: Type.Array(
    Type.Object({
      index: Type.Integer({ description: 'Place in the batch, from 0.' }),
      error: Type.String(),
      details: Type.Array(detail),
    }),
  ),
});
