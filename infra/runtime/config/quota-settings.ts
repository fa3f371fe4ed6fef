import { QUOTA_NAMES, QUOTAS, type QuotaName, type Quotas } from '@tributary/core';
import { number, rate } from './parse.ts';
import { type Setting, setting } from './setting.ts';

type QuotaKey<Name extends QuotaName = QuotaName> = `quota:${Name}`;

const keyOf = <Name extends QuotaName>(name: Name): QuotaKey<Name> => `quota:${name}`;

/** One for each quota; more than it is answered 409, and what is there already stays. */
const ONE_EACH = Object.fromEntries(
  QUOTA_NAMES.map((name) => [
    keyOf(name),
    setting(
      `TRIBUTARY_QUOTA_${name.toUpperCase()}`,
      String(QUOTAS[name].fallback),
      number(0, 100_000_000_000),
      `${QUOTAS[name].counts}, at most.`,
    ),
  ]),
) as { readonly [Key in QuotaKey]: Setting<number> };

/** How much tenants may put into the catalog, and how fast. */
export const QUOTA_SETTINGS = {
  changeRate: setting(
    'TRIBUTARY_CHANGE_RATE',
    '10',
    rate(10_000_000),
    'Changes a second of one workspace, or of what an organization has beside its workspaces, that one gateway takes, and at once as many as a minute allows; more is answered 429. A change of more than 16 KiB counts for one each 16 KiB. What removes something is not counted.',
  ),
  accountChangeRate: setting(
    'TRIBUTARY_CHANGE_RATE_PER_ACCOUNT',
    '20',
    rate(10_000_000),
    'The same of one account and the keys it made, in all workspaces.',
  ),
  ...ONE_EACH,
} as const;

export function quotasOf(config: { readonly [Key in QuotaKey]: number }): Quotas {
  return Object.fromEntries(QUOTA_NAMES.map((name) => [name, config[keyOf(name)]])) as Quotas;
}
