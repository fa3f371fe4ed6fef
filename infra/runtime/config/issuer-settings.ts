import { SIGNATURE_ALGORITHMS } from '@tributary/core';
import { isSafeUrl } from '../issuer/fetch-keys.ts';
import { NONE, type Parsed, setting } from './setting.ts';

/** An identity provider that people sign in with. */
export interface IssuerSettings {
  /** Its URL, and the exact `iss` of its tokens. */
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly algorithms: readonly string[];
  readonly emailDomains: readonly string[];
}

const DEFAULT_ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'];

/** The issuers of ID tokens that are accepted. */
export const ISSUER_SETTINGS = {
  issuers: setting(
    'TRIBUTARY_ISSUERS',
    '',
    issuers(),
    `OpenID Connect issuers whose ID tokens are taken, as a JSON list of \`{ "issuer": "https://...", "audiences": ["<client id>"] }\`; optional: \`algorithms\` (default ${DEFAULT_ALGORITHMS.join(', ')}; asymmetric ones alone) and \`email_domains\`, which lets in only people with a verified address there. The word ${NONE}: API keys alone.`,
  ),
} as const;

const FIELDS = ['issuer', 'audiences', 'algorithms', 'email_domains'];

function issuers(): (value: string) => Parsed<readonly IssuerSettings[]> {
  return (value) => {
    if (value === '' || value === NONE) return { ok: true, value: [] };
    const list = jsonOf(value);
    if (!Array.isArray(list)) return { ok: false, message: 'must be a JSON list of issuers' };
    const found: IssuerSettings[] = [];
    for (const [i, each] of list.entries()) {
      const parsed = issuer(each);
      if (!parsed.ok) return { ok: false, message: `[${i}] ${parsed.message}` };
      if (found.some(({ issuer }) => issuer === parsed.value.issuer))
        return { ok: false, message: `[${i}] is an issuer that was named before` };
      found.push(parsed.value);
    }
    return { ok: true, value: found };
  };
}

function issuer(value: unknown): Parsed<IssuerSettings> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { ok: false, message: 'must be an object' };
  const fields = value as Readonly<Record<string, unknown>>;
  const unknown = Object.keys(fields).find((name) => !FIELDS.includes(name));
  if (unknown !== undefined)
    return { ok: false, message: `has the unknown field "${unknown}"; there are ${FIELDS.join(', ')}` };
  const { issuer, audiences, algorithms = DEFAULT_ALGORITHMS, email_domains: domains = [] } = fields;
  if (typeof issuer !== 'string' || !isIssuerUrl(issuer))
    return {
      ok: false,
      message: 'must have an issuer: an https:// URL without a query (http:// on this machine alone)',
    };
  if (!areTexts(audiences) || audiences.length === 0)
    return { ok: false, message: 'must have audiences: a list of one text at least' };
  if (!areTexts(algorithms) || algorithms.length === 0 || !algorithms.every(isAsymmetric))
    return { ok: false, message: `may have algorithms: a list of ${SIGNATURE_ALGORITHMS.join(', ')}` };
  if (!areTexts(domains) || !domains.every((domain) => DOMAIN.test(domain)))
    return { ok: false, message: 'may have email_domains: a list of names such as "example.com"' };
  const emailDomains = domains.map((domain) => domain.toLowerCase());
  return { ok: true, value: { issuer, audiences, algorithms, emailDomains } };
}

const DOMAIN = /^[a-z0-9-]+(\.[a-z0-9-]+)+$/i;

function isIssuerUrl(text: string): boolean {
  if (!URL.canParse(text) || /[?#]/.test(text)) return false;
  const url = new URL(text);
  return isSafeUrl(url) && url.username === '' && url.password === '';
}

function isAsymmetric(algorithm: string): boolean {
  return SIGNATURE_ALGORITHMS.some((known) => known === algorithm);
}

function areTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string' && each !== '');
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
