import type { Schemas } from '../../../api/client.ts';
import type { Json, JsonObject } from '../settings/fields.ts';
import {
  isObject,
  jsonOf,
  type ObjectDraft,
  type ValueDraft,
  valueDraftOf,
  valueFaults,
} from './value-draft.ts';

/** Members of an object are fields of the same form, which the description of the API does not say. */
export type ActionField = Omit<Schemas['ActionField'], 'fields'> & {
  readonly fields?: readonly ActionField[];
};
type WithFields<T> = Omit<T, 'fields'> & { readonly fields: readonly ActionField[] };
export type Hook = WithFields<NonNullable<Schemas['DestinationAction']['hooks']>[number]>;
export type Action = WithFields<Omit<Schemas['DestinationAction'], 'hooks'>> & {
  readonly hooks?: readonly Hook[];
};

/** A subscription of the settings while it is edited. */
export interface SubscriptionDraft {
  /** Identifies it in the form, wherever it stands. */
  readonly key: string;
  readonly name: string;
  readonly action: string;
  readonly trigger: string;
  readonly enabled: boolean;
  /** Whether its events go in batches; absent: as `enable_batching` of the mapping says. */
  readonly batch?: boolean;
  /** An object, or its JSON. */
  readonly mapping: ValueDraft;
  /** Members that the form does not show. */
  readonly others: JsonObject;
}

export function subscriptionDraftsOf(stored: Json | undefined): readonly SubscriptionDraft[] {
  return (Array.isArray(stored) ? stored.filter(isObject) : []).map((one, index) =>
    subscriptionDraftOf(one, String(index)),
  );
}

export function subscriptionDraftOf(stored: JsonObject, key: string): SubscriptionDraft {
  const { name, action, trigger, mapping, enabled, batch, ...others } = stored;
  return {
    key,
    name: textOf(name),
    action: textOf(action),
    trigger: textOf(trigger),
    enabled: enabled !== false,
    ...(typeof batch === 'boolean' ? { batch } : {}),
    mapping: valueDraftOf(mapping ?? {}),
    others,
  };
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

export function subscriptionOf({
  name,
  action,
  trigger,
  enabled,
  batch,
  mapping,
  others,
}: SubscriptionDraft): JsonObject {
  return {
    ...(name === '' ? {} : { name }),
    action,
    trigger,
    mapping: jsonOf(mapping) ?? {},
    enabled,
    ...(batch === undefined ? {} : { batch }),
    ...others,
  };
}

/** The switch of batches in a mapping, which `batch` of its subscription overrides. */
const BATCH_SWITCH = 'enable_batching';
/** The fields that bound batches. */
const BATCH_BOUNDS = ['batch_size', 'batch_bytes', 'batch_keys'];

export function isBatched({ batch, mapping }: SubscriptionDraft): boolean {
  if (batch !== undefined) return batch;
  const value = jsonOf(mapping);
  return isObject(value) && value[BATCH_SWITCH] === true;
}

export function batchBoundsOf({ fields }: Action): readonly ActionField[] {
  // An item of the list is a field that has one value in all of a batch.
  const choices = fields.map(({ field }) => ({ value: field, label: field }));
  return fields
    .filter(({ field }) => BATCH_BOUNDS.includes(field))
    .map((field) => (field.multiple === true ? { ...field, choices } : field));
}

/** The keys of a mapping that have inputs beside its fields. */
export function ownKeysOf(action: Action | undefined): readonly string[] {
  const { batch, hooks = [] } = action ?? {};
  return [...(batch === true ? [BATCH_SWITCH, ...BATCH_BOUNDS] : []), ...hooks.map(({ hook }) => hook)];
}

/** The mapping as conditions see it: with the switch of batches as the subscription has it. */
export function withBatchSwitch(value: boolean, mapping: ObjectDraft): ObjectDraft {
  if (!value && mapping.members[BATCH_SWITCH] === undefined) return mapping;
  return { mode: 'object', members: { ...mapping.members, [BATCH_SWITCH]: { mode: 'literal', value } } };
}

export interface SubscriptionFault {
  /** The key of the subscription. */
  readonly key: string;
  /** JSON pointer below the subscription. */
  readonly path: string;
  readonly message: string;
}

/** What keeps them from being sent. */
export function subscriptionFaults(drafts: readonly SubscriptionDraft[]): readonly SubscriptionFault[] {
  return drafts.flatMap(({ key, trigger, mapping }) => [
    ...(trigger.trim() === '' ? [{ key, path: '/trigger', message: 'is required' }] : []),
    ...valueFaults(mapping, '/mapping').map((fault) => ({ key, ...fault })),
  ]);
}

/** The faults that the API found, by its pointers below `/settings/subscriptions`. */
export function faultsOfApi(
  faults: readonly { readonly path: string; readonly message: string }[],
  sent: readonly SubscriptionDraft[],
): readonly SubscriptionFault[] {
  return faults.flatMap(({ path, message }) => {
    const [, index, rest = ''] = /^\/settings\/subscriptions\/(\d+)(\/.*)?$/.exec(path) ?? [];
    const key = index === undefined ? undefined : sent[Number(index)]?.key;
    return key === undefined ? [] : [{ key, path: rest, message }];
  });
}

/** A new subscription of an action, with the mapping that its authors propose. */
export function newSubscription({ action, title, trigger, fields }: Action, key: string): SubscriptionDraft {
  return {
    key,
    name: title,
    action,
    trigger: trigger ?? 'type = "track"',
    enabled: true,
    mapping: valueDraftOf(defaultsOf(fields)),
    others: {},
  };
}

function defaultsOf(fields: readonly ActionField[]): JsonObject {
  return Object.fromEntries(
    fields.flatMap(({ field, default: byDefault }): [string, Json][] =>
      byDefault === undefined ? [] : [[field, byDefault as Json]],
    ),
  );
}

/** The inputs of a hook to begin with: those of its last run, by what the mapping has of it. */
export function hookInputsOf({ fields }: Hook, kept: Json | undefined): ObjectDraft {
  const { inputs, pending } = isObject(kept) ? kept : {};
  const draft = valueDraftOf(pending ?? inputs ?? defaultsOf(fields));
  return draft.mode === 'object' ? draft : { mode: 'object', members: {} };
}

/** A key that none of them has. */
export function freeKey(drafts: readonly SubscriptionDraft[]): string {
  const used = new Set(drafts.map(({ key }) => key));
  let number = drafts.length;
  while (used.has(`new-${number}`)) number += 1;
  return `new-${number}`;
}

type Conditions = NonNullable<ActionField['depends_on']>;

/** Whether a field applies; one whose conditions depend on the event does. */
export function applies({ depends_on }: ActionField, mapping: ObjectDraft): boolean {
  return depends_on === undefined || holds(depends_on, mapping) !== false;
}

/** Whether the mapping must have the field. */
export function isRequired({ required, required_if }: ActionField, mapping: ObjectDraft): boolean {
  return required === true || (required_if !== undefined && holds(required_if, mapping) === true);
}

/** Whether conditions hold for every event; undefined where that depends on the event. */
function holds({ match, conditions }: Conditions, mapping: ObjectDraft): boolean | undefined {
  const results = conditions.map((condition) => conditionHolds(condition, mapping));
  const decisive = match === 'any';
  if (results.includes(decisive)) return decisive;
  return results.includes(undefined) ? undefined : !decisive;
}

function conditionHolds(
  condition: Conditions['conditions'][number],
  mapping: ObjectDraft,
): boolean | undefined {
  const { field, operator, value } = condition;
  const [parent = '', child] = String(field).split('.');
  const stated = mapping.members[parent] ?? { mode: 'none' };
  if (child !== undefined) return stated.mode === 'none' ? false : undefined;
  if (stated.mode === 'path' || stated.mode === 'template') return undefined;
  const known = jsonOf(stated);
  if (isObject(known) && Object.keys(known).some((key) => key.startsWith('@'))) return undefined;
  const isNone = known === undefined || known === null || known === '';
  const isEqual = value === undefined ? isNone : !isNone && JSON.stringify(known) === JSON.stringify(value);
  if (value !== undefined && isNone) return false;
  return isEqual === (operator === 'is');
}

/** The value of a draft at a JSON pointer, for the comparison of what was typed since; undefined where there is none. */
export function draftAt(draft: SubscriptionDraft, path: string): unknown {
  const [first = '', ...rest] = path.split('/').slice(1);
  if (first !== 'mapping') return draft[first as keyof SubscriptionDraft];
  let at: ValueDraft | undefined = draft.mapping;
  for (const key of rest) {
    if (at?.mode !== 'object') break;
    at = at.members[key.replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  return at;
}

/** The faults that the person has not touched since they were found. */
export function openFaults(
  faults: readonly SubscriptionFault[],
  found: readonly SubscriptionDraft[],
  now: readonly SubscriptionDraft[],
): readonly SubscriptionFault[] {
  const byKey = (drafts: readonly SubscriptionDraft[], key: string) => drafts.find((one) => one.key === key);
  return faults.filter(({ key, path }) => {
    const [before, after] = [byKey(found, key), byKey(now, key)];
    return before !== undefined && after !== undefined && draftAt(before, path) === draftAt(after, path);
  });
}

/** The message for a place: its own faults, and with their paths those below it, without those at places that show theirs. */
export function faultText(
  faults: readonly Pick<SubscriptionFault, 'path' | 'message'>[],
  path: string,
  elsewhere: readonly string[] = [],
): string | undefined {
  const isIn = (place: string, at: string) => at === place || at.startsWith(`${place}/`);
  const texts = faults.flatMap((fault) => {
    if (fault.path === path) return [fault.message];
    if (!isIn(path, fault.path) || elsewhere.some((place) => isIn(place, fault.path))) return [];
    return [`${fault.path.slice(path.length + 1).replaceAll('/', '.')} ${fault.message}`];
  });
  return texts.length === 0 ? undefined : texts.join('; ');
}
