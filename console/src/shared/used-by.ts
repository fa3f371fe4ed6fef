import { plural } from './quantities.ts';

type UsingRule = { readonly enabled: boolean };

/** What rules mean for the deletion of what they use; `rules`: undefined while they are not known. */
export function usedByText(rules: readonly UsingRule[] | undefined, hasMore = false): string {
  if (rules === undefined) return 'While an enabled rule uses it, this is refused.';
  const enabled = rules.filter((rule) => rule.enabled).length;
  const disabled = rules.length - enabled;
  if (enabled > 0)
    return `${hasMore ? 'At least ' : ''}${plural(enabled, 'enabled rule uses', 'enabled rules use')} it, so this will be refused: disable them, or take it out of them first.`;
  if (hasMore) return 'Many rules use it. While one of them is enabled, this is refused.';
  if (disabled > 0)
    return `${plural(disabled, 'disabled rule names', 'disabled rules name')} it, and cannot be enabled afterwards as they are.`;
  return 'No rule uses it, so nothing is delivered differently.';
}
