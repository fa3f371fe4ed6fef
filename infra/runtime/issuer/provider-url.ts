/**
 * Whether keys may be fetched from here: an attacker that changes them on their way signs in as anybody, so only encrypted,
 * or from this machine itself.
 */
export function isSafeUrl(url: URL): boolean {
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
}

function isLoopback(hostname: string): boolean {
  return /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(hostname);
}

/**
 * Where the keys of an issuer are by its own word; undefined where they may not be. They may be on another host; but one
 * elsewhere has none on this machine, its document would make us ask what it cannot reach itself.
 */
export function keysUrlOf(issuer: string, jwksUri: unknown): string | undefined {
  if (typeof jwksUri !== 'string' || !URL.canParse(jwksUri)) return undefined;
  const url = new URL(jwksUri);
  if (!isSafeUrl(url) || (isLoopback(url.hostname) && !isLoopback(new URL(issuer).hostname)))
    return undefined;
  return url.href;
}
