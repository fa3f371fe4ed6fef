/** Bytes of an answer that are kept to be shown. */
export const EXCERPT_BYTES = 1_024;

const MASK = '***';
/** Shorter parts of a header value are words rather than credentials. */
const MIN_PART = 8;

/**
 * The start of an answer as people may see it: text, without control characters, and without the secret settings that
 * a destination echoed. `bytes` is the start of the body; a secret cut off at its end goes too.
 */
export function excerptOf(bytes: Uint8Array, secrets: readonly string[]): string {
  if (bytes.length === 0) return '';
  const text = new TextDecoder().decode(bytes.subarray(0, EXCERPT_BYTES)).replace(/\uFFFD+$/, '');
  const masked = secrets.reduce((rest, secret) => rest.replaceAll(secret, MASK), text);
  return withoutCutSecret(masked, secrets)
    .replace(/[^\P{C}\t\n]/gu, '')
    .trim();
}

function withoutCutSecret(text: string, secrets: readonly string[]): string {
  const cuts = secrets.map((secret) => {
    for (let length = Math.min(secret.length - 1, text.length); length >= 4; length--) {
      if (text.endsWith(secret.slice(0, length))) return length;
    }
    return 0;
  });
  const cut = Math.max(0, ...cuts);
  return cut === 0 ? text : text.slice(0, -cut) + MASK;
}

/** What of a destination's settings must not be shown. */
export interface SecretSettings {
  readonly secret: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** Every text that must not be shown, longest first: the secret, header values, and the credentials inside those. */
export function secretTexts(settings: SecretSettings): readonly string[] {
  const texts = new Set(settings.secret === '' ? [] : [settings.secret]);
  for (const [, value] of settings.headers) {
    const parts = value.split(/[\s,;="]+/).filter((part) => part.length >= MIN_PART);
    for (const text of [value, ...parts]) {
      if (text.length >= 4) texts.add(text).add(JSON.stringify(text).slice(1, -1));
    }
  }
  return [...texts].sort((a, b) => b.length - a.length);
}
