import { randomBytes } from 'node:crypto';
import { contentSecurityPolicy } from '../server/content-security-policy.ts';

/** A page of the console, as it is sent once. */
export interface Page {
  readonly headers: Readonly<Record<string, string>>;
  readonly html: string;
}

const NONCE_PLACEHOLDER = '__STYLE_NONCE__';

const COMMON_HEADERS = {
  'cache-control': 'no-cache',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  // The page opens the sign-in page of an issuer in a window that must be able to answer it.
  'cross-origin-opener-policy': 'same-origin-allow-popups',
} as const;

/**
 * `index.html` with a new nonce for the styles that are made at run time. `issuers`: the origins that the page calls to
 * sign in, and shows in a frame to renew a session.
 */
export function consolePage(template: string, issuers: readonly string[]): Page {
  const nonce = randomBytes(16).toString('base64');
  return {
    headers: {
      ...COMMON_HEADERS,
      'content-security-policy': contentSecurityPolicy({
        'script-src': ["'self'"],
        'style-src': ["'self'", `'nonce-${nonce}'`],
        'img-src': ["'self'", 'data:'],
        'font-src': ["'self'"],
        'connect-src': ["'self'", ...issuers],
        // In the frame the issuer sends the browser back to `signed-in.html`.
        'frame-src': issuers.length === 0 ? ["'none'"] : ["'self'", ...issuers],
        'frame-ancestors': ["'none'"],
      }),
    },
    html: template.replaceAll(NONCE_PLACEHOLDER, nonce),
  };
}

/** `signed-in.html`: where an issuer sends the browser back to. It hands its own URL to the console, in a window or frame. */
export function callbackPage(template: string): Page {
  return {
    headers: {
      ...COMMON_HEADERS,
      'content-security-policy': contentSecurityPolicy({
        'script-src': ["'self'"],
        'img-src': ["'self'"],
        'frame-ancestors': ["'self'"],
      }),
    },
    html: template,
  };
}
