const DAY_MS = 86_400_000;

/** Lifetimes of a new API key; a number is in days. */
export const LIFETIMES = ['30', '90', '365', 'never', 'until'] as const;
export type Lifetime = (typeof LIFETIMES)[number];

export const LIFETIME_LABELS: Readonly<Record<Lifetime, string>> = {
  '30': '30 days',
  '90': '90 days',
  '365': 'One year',
  never: 'Until it is revoked',
  until: 'Until a day …',
};

/** The expiry for the API; null for never. `day` is a day of the viewer's calendar, and the key is valid until its end. */
export function expiryOf(lifetime: Lifetime, day: string, now: number): string | null {
  if (lifetime === 'never') return null;
  if (lifetime !== 'until') return new Date(now + Number(lifetime) * DAY_MS).toISOString();
  const end = new Date(`${day}T23:59:59.999`);
  return Number.isNaN(end.getTime()) ? day : end.toISOString(); // the API refuses it and names the fault
}

type ExpiryState = 'never' | 'expired' | 'soon' | 'later';

const SOON_MS = 14 * DAY_MS;

export function expiryStateOf(expiresAt: string | null, now: number): ExpiryState {
  if (expiresAt === null) return 'never';
  const left = Date.parse(expiresAt) - now;
  if (left <= 0) return 'expired';
  return left < SOON_MS ? 'soon' : 'later';
}
