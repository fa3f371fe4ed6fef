import { ApiError } from '../api/errors.ts';

/** The reasons of a conflict that a person can resolve. */
const REASONS: Readonly<Record<string, string>> = {
  taken: 'Something else has this already:',
  in_use: 'It is in use. Change first:',
  test_failed: 'Its test fails, so the rules that use it could not run it. Nothing was saved. Used by',
  missing: 'It names something that is gone, archived or a draft:',
  last_owner: 'An organization needs an owner. Make somebody else an owner first.',
  hook_unfinished:
    'How an earlier run ended is unknown. Look whether the service has done it, then run it again.',
  version: 'It was changed at the same time. Load it again.',
  not_merged: 'It is a profile of its own already.',
  unknown_origin: 'Nothing of the profile is known to have come from it.',
  upgrade_pending: 'The operator has not finished an upgrade.',
};

/** An error in words; `hint` says what it means and what to do. */
export function errorText(error: unknown): { readonly title: string; readonly hint?: string | undefined } {
  if (!(error instanceof ApiError)) return { title: error instanceof Error ? error.message : String(error) };
  const title = error.message;
  switch (error.status) {
    case 0:
      return { title, hint: 'Is it running, and can this browser reach it?' };
    case 403:
      return { title, hint: sentence(error.missing) ?? 'Your role does not allow this, or it is not there.' };
    case 409:
      return { title: error.reason === 'test_failed' ? 'The test failed' : title, hint: conflictOf(error) };
    case 429:
      return { title, hint: `Too many requests.${waitOf(error)}` };
    case 503:
      return { title, hint: `Something it depends on does not answer. Nothing is lost.${waitOf(error)}` };
    default:
      return { title };
  }
}

function sentence(text: string | undefined): string | undefined {
  return text === undefined ? undefined : `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** The reason of a conflict, with the entities that prevent the change by kind and name. */
function conflictOf({ reason = '', body: { causes, quota, limit } }: ApiError): string {
  if (typeof quota === 'string') return `At most ${limit}: ${quota.replaceAll('_', ' ')}.`;
  const named = (Array.isArray(causes) ? causes : []).map(
    ({ kind, id, name }) => `${String(kind).replaceAll('_', ' ')} ${name === undefined ? id : `"${name}"`}`,
  );
  const text = REASONS[reason] ?? reason;
  return named.length === 0
    ? text.replace(/:$/, '.').replace(/ Used by$/, '')
    : `${text} ${named.join(', ')}.`;
}

function waitOf({ retryAfterS }: ApiError): string {
  return retryAfterS === undefined ? '' : ` Try again in ${retryAfterS} s.`;
}
