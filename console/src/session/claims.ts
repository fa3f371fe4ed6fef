/** The claims of a JWT, unverified: the gateway verifies them. */
export interface Claims {
  readonly iss?: string;
  readonly sub?: string;
  /** s since the epoch. */
  readonly exp?: number;
}

/** No claims for a text that is not a JWT. */
export function claimsOf(token: string): Claims {
  const [, part = ''] = token.split('.');
  try {
    const binary = atob(part.replaceAll('-', '+').replaceAll('_', '/'));
    const text = new TextDecoder().decode(Uint8Array.from(binary, (character) => character.charCodeAt(0)));
    return JSON.parse(text) as Claims;
  } catch {
    return {};
  }
}
