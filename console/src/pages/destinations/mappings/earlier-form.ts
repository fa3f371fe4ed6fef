import type { DestinationValues } from '../destination-values.ts';
import type { Draft } from '../settings/drafts.ts';
import { isDraftObject } from '../settings/drafts.ts';
import type { Json, JsonObject } from '../settings/fields.ts';
import { type SubscriptionDraft, subscriptionDraftOf } from './subscription-draft.ts';

/**
 * The values of a destination of release 0.2.0 with its presets and actions written out: the presets that it names, of all if
 * it names none, with the mappings that they have in the pack.
 */
export function withSubscriptions(
  values: DestinationValues,
  presets: readonly JsonObject[],
): DestinationValues {
  const chosen = listOf(values['settings:presets']);
  const actions = listOf(values['settings:actions']).filter(isDraftObject);
  const written = [
    ...presets.filter(({ name }) => chosen.length === 0 || chosen.some((one) => one === name)),
    ...actions.map(
      ({ action = '', subscribe = '', mapping = '' }): JsonObject => ({
        action: String(action),
        trigger: String(subscribe),
        mapping: parsed(mapping),
      }),
    ),
  ];
  const subscriptions: readonly SubscriptionDraft[] = written.map((one, index) =>
    subscriptionDraftOf(one, `new-${index}`),
  );
  return { ...values, 'settings:presets': [], 'settings:actions': [], subscriptions };
}

function listOf(draft: Draft | undefined): readonly Draft[] {
  return Array.isArray(draft) ? draft : [];
}

function parsed(text: Draft): Json {
  try {
    return JSON.parse(String(text)) as Json;
  } catch {
    return {};
  }
}
