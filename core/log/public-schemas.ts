import { ENVIRONMENTS, EVENT_TYPES, type JsonObject } from '../event/event.ts';
import { TOPIC } from './topics.ts';

/**
 * JSON Schemas (draft-07) of the values of the public topics, for external consumers.
 *
 * Consumers rely on them, so they change only compatibly: fields may be added, required fields are never removed and
 * types never change (compatibility FORWARD, see docs/reference/topics.md). Objects are open, and only
 * closed sets are an `enum`. There is no `format`, because common validators reject unknown ones, and no `$id`,
 * because a consumer may compile several versions side by side.
 */
const DRAFT = 'http://json-schema.org/draft-07/schema#';

const text = (description: string): JsonObject => ({ type: 'string', description });
const object = (description: string): JsonObject => ({ type: 'object', description });

/** An object that has all of these members. */
const complete = (description: string, properties: JsonObject): JsonObject => ({
  ...object(description),
  properties,
  required: Object.keys(properties),
});

const EVENT: JsonObject = {
  type: 'object',
  description: 'A track, identify, page, screen, group or alias fact. Absent fields are left out.',
  properties: {
    message_id: text('Unique within workspace and environment; repeats within the window are dropped.'),
    type: { enum: EVENT_TYPES, type: 'string' },
    event: text('track: what happened.'),
    name: text('page and screen: its name.'),
    category: text('page and screen: its category.'),
    group_id: text('group: which one.'),
    previous_id: text('alias: the id of the user before.'),
    user_id: text('Whom it is about.'),
    anonymous_id: text('Whom it is about while there is no user_id.'),
    properties: object('track, page and screen: what the producer says about it.'),
    traits: object('identify, group and alias: what the producer says about the user or group.'),
    context: object('Where it came from, by the producer.'),
    integrations: object('Which destinations receive it, by the producer.'),
    timestamp: text('ISO 8601: when it happened, by the word of the producer.'),
    received_at: text('ISO 8601, UTC: when the gateway took it.'),
    environment: { enum: ENVIRONMENTS, type: 'string' },
    workspace_id: text('UUID.'),
    source_id: text('UUID of the source that the write key names.'),
  },
  required: ['message_id', 'type', 'timestamp', 'received_at', 'environment', 'workspace_id'],
};

const VIOLATION = complete('One violation of a contract, found in one event.', {
  id: text('UUID; the same for the same violation, however often it is written.'),
  workspace_id: text('UUID.'),
  environment: { enum: ENVIRONMENTS, type: 'string' },
  contract_id: text('UUID.'),
  contract_version: { type: 'integer' },
  message_id: text('Of the event.'),
  event_type: { enum: EVENT_TYPES, type: 'string' },
  event_name: text('`event` of track, `name` of page and screen, else empty.'),
  kind: text('required, type, enum, format, pattern, bounds, undeclared or schema; more may come.'),
  path: text('JSON pointer below properties or traits.'),
  message: text('For people.'),
  action: text('warned, omitted or blocked: what became of the event for it.'),
  received_at: text('ISO 8601, UTC, of the event.'),
});

const REJECTED: JsonObject = {
  type: 'object',
  description: 'An event as it was received, and why its contract blocked it.',
  definitions: { event: EVENT, violation: VIOLATION },
  properties: {
    event: { $ref: '#/definitions/event' },
    reason: text('`event blocked`; more may come.'),
    violations: { type: 'array', items: { $ref: '#/definitions/violation' } },
  },
  required: ['event', 'reason', 'violations'],
};

/** A profile record as in the profile API (docs/profile-api.md). */
const PROFILE_RECORD = complete('A profile, as the profile API shows it.', {
  updated_ts: { type: 'integer', description: 'Epoch ms.' },
  created_ts: { type: 'integer', description: 'Epoch ms.' },
  profile: object('Attributes by category.'),
  ids: object('By namespace a list of objects with _ts and the identity; under linkedUcid a list of UUIDs.'),
  mkt_preferences: object('By name: type, value, datasourceId, datasetId and _ts.'),
  consent: object('By name: value and _ts.'),
  region: text('Where it belongs.'),
  ucid: text('UUID.'),
});

const PROFILE_CHANGE: JsonObject = {
  type: 'object',
  description:
    'One committed change of a profile. It may come again; the highest version of a ucid is the newest, be it that of a change of its own or of one that names it as linked.',
  definitions: { record: PROFILE_RECORD },
  properties: {
    kind: text('written, merged or deleted; more may come.'),
    ucid: text('UUID of the profile.'),
    orgId: { type: 'integer', description: 'Number of the organization.' },
    region: text('Where it belongs.'),
    version: { type: 'integer', description: 'Grows with every change of this ucid.' },
    at: { type: 'integer', description: 'When it changed, epoch ms.' },
    linked: {
      type: 'array',
      items: { type: 'string' },
      description:
        'merged: ucids that lead here from now on. deleted: ucids that led here. A ucid may come back, with a change of its own at a higher version.',
    },
    record: { $ref: '#/definitions/record' },
    too_large: {
      type: 'boolean',
      description:
        'True where the record is left out because of its size, or as its organization is over a budget of bytes.',
    },
  },
  required: ['kind', 'ucid', 'orgId', 'region', 'version', 'at', 'linked'],
};

/** The public topics with the schemas of their values. Adding a topic here makes it public. */
export const PUBLIC_SCHEMAS: ReadonlyMap<string, JsonObject> = new Map([
  [TOPIC.accepted, { $schema: DRAFT, title: 'AcceptedEvent', ...EVENT }],
  [TOPIC.rejected, { $schema: DRAFT, title: 'RejectedEvent', ...REJECTED }],
  [TOPIC.violations, { $schema: DRAFT, title: 'Violation', ...VIOLATION }],
  [TOPIC.profileChanges, { $schema: DRAFT, title: 'ProfileChange', ...PROFILE_CHANGE }],
]);
