import type { JsonObject } from '@tributary/core';
import { type TProperties, Type } from 'typebox';
import { MAX_BATCH } from '../../ingestion/event-schemas.ts';

/**
 * The fields are documented but not required: each event is validated after its conversion. Other fields are accepted and
 * kept in `context.segment`.
 */
const FIELDS = {
  messageId: 'Identifies the event; a repeated one is dropped. Assigned when absent.',
  userId: 'The subject. This or `anonymousId` is required.',
  anonymousId: 'The subject while its `user_id` is unknown.',
  event: 'The name of the event, for track.',
  name: 'Of a page or screen.',
  groupId: 'Of a group.',
  previousId: 'The previous id of the user, for alias.',
  properties: 'Of a track, page or screen.',
  traits: 'Of an identify or group.',
  context: 'Circumstances: device, location, library.',
  category: 'Of a page or screen.',
  integrations: 'Which destinations receive it, by name, type or id.',
  timestamp: 'When it happened, ISO 8601, by the client’s clock; corrected by `sentAt`.',
  sentAt: 'When it was sent, ISO 8601, by the client’s clock.',
  writeKey: 'The write key, where no header has it.',
} as const;

const anything = (description: string) => Type.Optional(Type.Unknown({ description }));

const callFields: TProperties = Object.fromEntries(
  Object.entries(FIELDS).map(([name, description]) => [name, anything(description)]),
);

export type CallBody = JsonObject;

export const callBody = Type.Unsafe<CallBody>(
  Type.Object(callFields, {
    title: 'SdkCall',
    additionalProperties: true,
    examples: [
      {
        userId: 'ada',
        event: 'Order Completed',
        name: 'Home',
        groupId: 'engines',
        previousId: 'a-1',
        properties: { total: 12.5 },
        traits: { plan: 'pro' },
      },
    ],
  }),
);

export interface CallsBody {
  readonly batch: readonly unknown[];
  readonly [name: string]: unknown;
}

export const callsBody = Type.Unsafe<CallsBody>(
  Type.Object(
    {
      batch: Type.Array(Type.Unknown(), {
        maxItems: MAX_BATCH,
        description: 'Calls, each with its `type`: track, identify, page, screen, group or alias.',
      }),
      sentAt: anything(FIELDS.sentAt),
      context: anything('Below the context of each event.'),
      integrations: anything('Below the integrations of each event.'),
      writeKey: anything(FIELDS.writeKey),
    },
    {
      title: 'SdkBatch',
      description:
        'Other fields are kept in `context.segment.batch` of each event. The fields beside `batch` count for each event: 413 when an event, or all together, would be too large.',
      additionalProperties: true,
      examples: [
        { batch: [{ type: 'track', userId: 'ada', event: 'Order Completed', properties: { total: 12.5 } }] },
      ],
    },
  ),
);

/** The key may be in the query, as `sendBeacon` cannot set headers. */
export const callQuery = Type.Object(
  { writeKey: Type.Optional(Type.String({ description: FIELDS.writeKey })) },
  { additionalProperties: true },
);

export const settingsPath = Type.Object({
  writeKey: Type.String({ description: 'The write key. It is the credential where no header has one.' }),
});

const detail = Type.Object({ path: Type.String(), message: Type.String() });

/** The response that SDKs expect. */
export const takenAnswer = Type.Object(
  {
    success: Type.Literal(true),
    rejected: Type.Optional(
      Type.Array(Type.Object({ index: Type.Integer(), error: Type.String(), details: Type.Array(detail) }), {
        description: 'The events of a batch that were not taken, while others were.',
      }),
    ),
  },
  { title: 'SdkCallsTaken' },
);

/** The settings have the form that SDKs expect. */
export const settingsAnswer = Type.Unsafe<object>({
  type: 'object',
  additionalProperties: true,
  examples: [{ integrations: { 'Segment.io': { apiHost: 'events.example.com/v1' } } }],
});
