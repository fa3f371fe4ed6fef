/** What of a key's entity says whether it still opens anything. */
interface Lifetime {
  readonly status: 'active' | 'revoked';
  /** ISO 8601; absent or null: it does not expire. */
  readonly expires_at?: string | null;
}

/** Whether a key is good at `now`, epoch ms. One that expired is as good as one that was revoked: not at all. */
export function isUsable({ status, expires_at }: Lifetime, now: number): boolean {
  return status === 'active' && (expires_at == null || now < Date.parse(expires_at));
}
