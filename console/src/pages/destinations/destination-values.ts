import type { Schemas } from '../../api/client.ts';
import {
  type SubscriptionDraft,
  subscriptionDraftsOf,
  subscriptionFaults,
  subscriptionOf,
} from './mappings/subscription-draft.ts';
import type { Destination, DestinationTypeDetails } from './queries.ts';
import { type Draft, draftOf, draftPathOf, faultsOf, MASK, secretOf, settingOf } from './settings/drafts.ts';
import { type Field, fieldOf, type Json, type JsonObject } from './settings/fields.ts';

/** The setting that the mappings are. */
const SUBSCRIPTIONS = 'subscriptions';

export type AlertChoice = 'default' | 'none' | 'own';
type SettingKey = `settings:${string}` | 'settings';

/** The values of a destination's form. Each setting is a field of its own, so that two persons may change two of them. */
export type DestinationValues = {
  name: string;
  environments: string[];
  max_concurrency: number | string;
  rate_limit_per_second: number | string;
  alerts: AlertChoice;
  alerts_email: string;
  alerts_destination_id: string;
  /** Absent: the settings have none. */
  subscriptions?: readonly SubscriptionDraft[];
} & { [setting in SettingKey]?: Draft };

interface FormField {
  readonly key: SettingKey;
  readonly field: Field;
}

/** The fields of the form by their keys: one for each setting, or a single one where the schema has no fields. */
export function formFieldsOf(root: Field): readonly FormField[] {
  if (root.kind !== 'group') return [{ key: 'settings', field: root }];
  return root.fields.map((field) => ({ key: `settings:${field.name}` as const, field }));
}

/** The fields of a type's settings, without the mappings and, where a destination has these, without their earlier form. */
export function rootOf(
  { settings_schema, actions }: DestinationTypeDetails,
  settings: Readonly<Record<string, unknown>> = { [SUBSCRIPTIONS]: [] },
): Field {
  const root = fieldOf(settings_schema);
  if (root.kind !== 'group' || actions.length === 0) return root;
  const properties = Object(settings_schema.properties) as Readonly<Record<string, { deprecated?: boolean }>>;
  const isEarlier = settings[SUBSCRIPTIONS] === undefined;
  return {
    ...root,
    fields: root.fields.filter(
      ({ name }) => name !== SUBSCRIPTIONS && (isEarlier || properties[name]?.deprecated !== true),
    ),
  };
}

export function valuesOf(root: Field, destination: Destination | undefined): DestinationValues {
  const settings = (destination?.settings ?? {}) as JsonObject;
  const isNew = destination === undefined;
  const drafts = formFieldsOf(root).map(({ key, field }) => {
    const stored =
      key === 'settings' ? (isNew ? undefined : settings) : settings[key.slice('settings:'.length)];
    return [key, draftOf(field, stored, isNew)] as const;
  });
  const alerts = destination?.alerts ?? null;
  return {
    name: destination?.name ?? '',
    environments: [...(destination?.environments ?? ['production', 'development'])],
    max_concurrency: destination?.max_concurrency ?? '',
    rate_limit_per_second: destination?.rate_limit_per_second ?? '',
    alerts: alerts === null ? 'default' : alerts.enabled ? 'own' : 'none',
    alerts_email: alerts?.email ?? '',
    alerts_destination_id: alerts?.destination_id ?? '',
    ...(settings.subscriptions === undefined
      ? {}
      : { subscriptions: subscriptionDraftsOf(settings.subscriptions) }),
    ...Object.fromEntries(drafts),
  };
}

/** The values of a new destination of a type, with the mappings that it begins with. */
export function newValuesOf(
  root: Field,
  { actions, default_subscriptions }: DestinationTypeDetails,
): DestinationValues {
  const values = valuesOf(root, undefined);
  return actions.length === 0
    ? values
    : { ...values, subscriptions: subscriptionDraftsOf(default_subscriptions as readonly JsonObject[]) };
}

/** The body of a save. Fields outside the form (`enabled`, `paused`) are taken from `stored`. */
export function bodyOf(
  root: Field,
  type: string,
  values: DestinationValues,
  stored?: Destination,
): Schemas['DestinationBody'] {
  return {
    name: values.name.trim(),
    type,
    settings: settingsOf(root, values),
    enabled: stored?.enabled ?? true,
    paused: stored?.paused ?? false,
    environments: values.environments as ('production' | 'development')[],
    max_concurrency: numberOrNull(values.max_concurrency),
    rate_limit_per_second: numberOrNull(values.rate_limit_per_second),
    alerts: alertsOf(values),
  };
}

export function settingsOf(root: Field, values: DestinationValues): Record<string, Json> {
  const fields = formFieldsOf(root);
  const stated = fields.flatMap(({ key, field }): [string, Json][] => {
    const value = settingOf(field, values[key]);
    if (value === undefined) return [];
    return key === 'settings'
      ? Object.entries(value as JsonObject)
      : [[key.slice('settings:'.length), value]];
  });
  const { subscriptions } = values;
  return {
    ...Object.fromEntries(stated),
    ...(subscriptions === undefined ? {} : { subscriptions: subscriptions.map(subscriptionOf) }),
  };
}

/** The settings for a preview: a mask stands for a secret that is stored, and for a required one that is not typed yet. */
export function previewSettingsOf(root: Field, values: DestinationValues): Record<string, Json> {
  const { subscriptions: _, ...own } = settingsOf(root, values);
  const masked = formFieldsOf(root).flatMap(({ key, field }) =>
    field.secret && (field.required || secretOf(values[key]).state === 'kept')
      ? [[key.slice('settings:'.length), MASK]]
      : [],
  );
  return { ...Object.fromEntries(masked), ...own };
}

function alertsOf({ alerts, alerts_email, alerts_destination_id }: DestinationValues) {
  if (alerts === 'default') return null;
  return {
    enabled: alerts === 'own',
    email: alerts_email === '' ? null : alerts_email,
    destination_id: alerts_destination_id === '' ? null : alerts_destination_id,
  };
}

/** The faults found before sending, by the path of the field. */
export function errorsOf(root: Field, values: DestinationValues): Record<string, string> {
  const faults = formFieldsOf(root).flatMap(({ key, field }) => faultsOf(field, values[key], key));
  return {
    ...(values.name.trim() === '' ? { name: 'is required' } : {}),
    ...(values.environments.length === 0 ? { environments: 'needs one at least' } : {}),
    ...(subscriptionFaults(values.subscriptions ?? []).length > 0
      ? { subscriptions: 'have fields that need a change' }
      : {}),
    ...Object.fromEntries(faults.map(({ path, message }) => [path, message])),
  };
}

/** The path of the form field for a path of the body: `settings.password` is `settings:password.value`. */
export function fieldPathOf(root: Field, bodyPath: string, values: DestinationValues): string {
  const [first, ...pointer] = bodyPath.split('.');
  if (first === 'alerts' && pointer.length > 0) return `alerts_${pointer.join('.')}`;
  if (first !== 'settings') return bodyPath;
  if (root.kind !== 'group') return draftPathOf(root, pointer, values.settings, 'settings');
  const [name = '', ...rest] = pointer;
  // Their own fields show the message; the form marks them as a whole.
  if (name === SUBSCRIPTIONS && values.subscriptions !== undefined) return SUBSCRIPTIONS;
  const found = formFieldsOf(root).find(({ key }) => key === `settings:${name}`);
  return found === undefined ? bodyPath : draftPathOf(found.field, rest, values[found.key], found.key);
}

/** The value of a form field for the comparison of versions; never a secret. */
export function shownOf(root: Field, key: string, value: unknown): unknown {
  if (key === SUBSCRIPTIONS) return ((value ?? []) as readonly SubscriptionDraft[]).map(subscriptionOf);
  const found = formFieldsOf(root).find((one) => one.key === key);
  if (found === undefined) return value;
  const { field } = found;
  if (!field.secret) return settingOf(field, value as Draft) ?? '';
  const sent = settingOf(field, value as Draft);
  if (sent === null) return 'removed';
  return sent === undefined ? 'as stored' : 'another one';
}

export function labelsOf(root: Field): Readonly<Record<string, string>> {
  const settings = formFieldsOf(root).map(({ key, field }) => [key, field.title] as const);
  return {
    max_concurrency: 'Requests at a time',
    rate_limit_per_second: 'Requests a second',
    alerts_email: 'Address of alerts',
    alerts_destination_id: 'Destination of alerts',
    subscriptions: 'Mappings',
    ...Object.fromEntries(settings),
  };
}

function numberOrNull(value: number | string): number | null {
  if (typeof value === 'number') return value;
  return value.trim() === '' ? null : Number(value);
}
