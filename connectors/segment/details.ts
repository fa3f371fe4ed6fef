import type {
  ActionField,
  ActionHook,
  DestinationAction,
  FieldConditions,
  Json,
  JsonObject,
  PresetSubscription,
} from '@tributary/core';
import type { PackAction, PackDefinition, PackField, PackHook } from './pack.ts';

/** What forms and the check of subscriptions need of a destination. A process of the pack reads it, when it is first needed. */
export interface Details {
  /** With the fields of each. */
  readonly actions: readonly DestinationAction[];
  /** With their mappings. */
  readonly presets: readonly PresetSubscription[];
  readonly audienceFields: readonly ActionField[];
  /** The words about the destination's own settings. */
  readonly settings: Readonly<Record<string, { readonly title: string; readonly description: string }>>;
}

/** By destination. All that can be known are some MiB; an installation uses few. */
const known = new Map<string, Details>();

export function keepDetails(destination: string, details: Details): void {
  known.set(destination, details);
}

export function hasDetails(destination: string): boolean {
  return known.has(destination);
}

/** Those of a destination that is prepared, see `ConnectorCatalog.prepare`. */
export function detailsOf(destination: string): Details {
  const details = known.get(destination);
  if (details === undefined) throw new Error(`the details of ${destination} are not prepared`);
  return details;
}

/** The details in a definition, for the process of the pack. */
export function detailsIn({
  presets = [],
  actions,
  audienceFields = {},
  authentication,
}: PackDefinition): Details {
  const mapped = presets.flatMap(({ name, type, subscribe, partnerAction, mapping = {} }) =>
    type === 'automatic' && subscribe !== undefined && Object.hasOwn(actions, partnerAction)
      ? [{ name, action: partnerAction, trigger: oneLine(subscribe), mapping: plain(mapping) as JsonObject }]
      : [],
  );
  return {
    actions: Object.entries(actions).map(([action, about]) =>
      actionOf(
        action,
        about,
        mapped.filter((preset) => preset.action === action).flatMap(({ mapping }) => Object.keys(mapping)),
      ),
    ),
    presets: mapped,
    audienceFields: fieldsOf(audienceFields),
    settings: Object.fromEntries(
      Object.entries(authentication?.fields ?? {}).map(([field, { label, description = '' }]) => [
        field,
        { title: oneLine(label), description: oneLine(description) },
      ]),
    ),
  };
}

function actionOf(action: string, about: PackAction, keys: readonly string[]): DestinationAction {
  const { title, description = '', defaultSubscription, fields = {}, syncMode, hooks = {} } = about;
  const others = [...new Set([...Object.keys(hooks), ...keys])].filter(
    (key) => !Object.hasOwn(fields, key) && !key.startsWith('__segment_internal_'),
  );
  return {
    action,
    title,
    description: oneLine(description),
    ...(defaultSubscription === undefined ? {} : { trigger: oneLine(defaultSubscription) }),
    ...(syncMode === undefined ? {} : { sync_modes: syncMode.choices.map(({ value }) => value) }),
    ...(others.length === 0 ? {} : { other_keys: others }),
    ...(Object.keys(hooks).length === 0 ? {} : { hooks: Object.entries(hooks).map(hookOf) }),
    fields: fieldsOf(fields),
  };
}

function hookOf([hook, { label, description, inputFields = {} }]: [string, PackHook]): ActionHook {
  return { hook, label, description: oneLine(description), fields: fieldsOf(inputFields) };
}

function fieldsOf(fields: Readonly<Record<string, PackField>>): readonly ActionField[] {
  return Object.entries(fields).map(([field, about]) => fieldOf(field, about));
}

function fieldOf(field: string, about: PackField): ActionField {
  const { required, depends_on, properties, choices, default: byDefault } = about;
  const requiredIf = typeof required === 'object' ? conditionsOf(required) : undefined;
  const dependsOn = depends_on === undefined ? undefined : conditionsOf(depends_on);
  return {
    field,
    label: about.label,
    ...(about.description === undefined ? {} : { description: oneLine(about.description) }),
    type: about.type ?? 'string',
    ...(required === true ? { required } : {}),
    ...(requiredIf === undefined ? {} : { required_if: requiredIf }),
    ...(dependsOn === undefined ? {} : { depends_on: dependsOn }),
    ...(about.multiple === true ? { multiple: true } : {}),
    ...(choices === undefined ? {} : { choices: choices.map(choiceOf) }),
    ...(byDefault === undefined ? {} : { default: plain(byDefault) }),
    ...(about.dynamic ? { dynamic: true } : {}),
    ...(about.allowNull === true ? { allow_null: true } : {}),
    ...(about.unsafe_hidden === true ? { hidden: true } : {}),
    ...(properties === undefined ? {} : { fields: fieldsOf(properties) }),
    ...(about.additionalProperties === true ? { open: true } : {}),
  };
}

export function choiceOf(choice: NonNullable<PackField['choices']>[number]): { value: Json; label: string } {
  if (typeof choice !== 'object' || choice === null || !('value' in choice))
    return { value: choice, label: String(choice) };
  return { value: choice.value ?? null, label: String(choice.label) };
}

/** Undefined where one of them is about the sync mode, which the fields do not show. */
function conditionsOf({ match = 'all', conditions }: Exclude<PackField['depends_on'], undefined>) {
  if (conditions.some(({ fieldKey }) => fieldKey === undefined)) return undefined;
  const found: FieldConditions = {
    match,
    conditions: conditions.map(({ fieldKey = '', operator, value }) => ({
      field: fieldKey,
      operator,
      ...(value === undefined ? {} : { value: plain(value) }),
    })),
  };
  return found;
}

/** As JSON: without members that are undefined. */
function plain(value: Json): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}

export function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
