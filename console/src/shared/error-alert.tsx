import { Alert, Button, Code, Group, List, Stack, Text } from '@mantine/core';
import { ApiError } from '../api/errors.ts';

const MAX_FAULTS = 10;

/** The reasons of a conflict that a person can do something about. */
const REASONS: Readonly<Record<string, string>> = {
  taken: 'Something else has this already.',
  in_use: 'Something else uses it.',
  missing: 'It names something that is gone, archived or a draft.',
  last_owner: 'An organization needs an owner.',
  version: 'It was changed at the same time. Load it again.',
  not_merged: 'It is a profile of its own already.',
  unknown_origin: 'Nothing of the profile is known to have come from it.',
  upgrade_pending: 'The operator has not finished an upgrade.',
};

interface Props {
  readonly error: unknown;
  readonly retry?: () => void;
}

/** What went wrong, in the words of the API, and the id of the request. */
export function ErrorAlert({ error, retry }: Props) {
  const { title, hint } = describe(error);
  return (
    <Alert color="red" title={title} role="alert">
      <Stack gap="xs" align="flex-start">
        {hint !== undefined && <Text size="sm">{hint}</Text>}
        {error instanceof ApiError && error.faults.length > 0 && (
          <List size="sm">
            {error.faults.slice(0, MAX_FAULTS).map(({ path, message }) => (
              <List.Item key={`${path} ${message}`}>
                <Code>{path}</Code> {message}
              </List.Item>
            ))}
          </List>
        )}
        {error instanceof ApiError && error.requestId !== undefined && (
          <Text size="xs" c="dimmed">
            Request <Code>{error.requestId}</Code>
          </Text>
        )}
        {retry !== undefined && (
          <Group>
            <Button size="xs" variant="light" color="red" onClick={retry}>
              Try again
            </Button>
          </Group>
        )}
      </Stack>
    </Alert>
  );
}

function describe(error: unknown): { readonly title: string; readonly hint?: string | undefined } {
  if (!(error instanceof ApiError)) return { title: error instanceof Error ? error.message : String(error) };
  const title = error.message;
  switch (error.status) {
    case 0:
      return { title, hint: 'Is it running, and can this browser reach it?' };
    case 403:
      return { title, hint: 'Your role does not allow this, or it is not there.' };
    case 409:
      return { title, hint: REASONS[error.reason ?? ''] ?? error.reason };
    case 429:
      return { title, hint: `Too many requests.${waitOf(error)}` };
    case 503:
      return { title, hint: `Something it depends on does not answer. Nothing is lost.${waitOf(error)}` };
    case 409:
      return { title: conflictOf(error) };
    default:
      return { title };
  }
}

const REASONS: Readonly<Record<string, string>> = {
  taken: 'The name is taken.',
  in_use: 'It is in use.',
  missing: 'Something that it names is gone, archived or a draft.',
  last_owner: 'The last owner of an organization stays its owner. Make somebody else an owner first.',
  version: 'It was changed at the same time. Look at it again.',
  upgrade_pending: 'The operator has not finished an upgrade yet.',
};

/** What prevents the change; the entities by their kind and id. */
function conflictOf({ message, body: { reason, causes, quota, limit } }: ApiError): string {
  if (typeof quota === 'string')
    return `The quota ${quota.replaceAll('_', ' ')} is used up: at most ${limit}.`;
  const text = (typeof reason === 'string' && (REASONS[reason] ?? `${message}: ${reason}`)) || message;
  const named = (Array.isArray(causes) ? causes : []).map(({ kind, id }) => `${kind} ${id}`);
  return named.length === 0 ? text : `${text} ${named.join(', ')}`;
}

function waitOf({ retryAfterS }: ApiError): string {
  return retryAfterS === undefined ? '' : ` Try again in ${retryAfterS} s.`;
}
