import { Alert, Button, Code, Group, List, Stack, Text } from '@mantine/core';
import { ApiError } from '../api/errors.ts';

const MAX_FAULTS = 10;

/** The reasons of a conflict that a person can resolve. */
const REASONS: Readonly<Record<string, string>> = {
  taken: 'Something else has this already.',
  in_use: 'Something else uses it.',
  missing: 'It names something that is gone, archived or a draft.',
  last_owner: 'An organization needs an owner. Make somebody else an owner first.',
  version: 'It was changed at the same time. Load it again.',
  not_merged: 'It is a profile of its own already.',
  unknown_origin: 'Nothing of the profile is known to have come from it.',
  upgrade_pending: 'The operator has not finished an upgrade.',
};

interface Props {
  readonly error: unknown;
  readonly retry?: () => void;
}

/** The failure in the words of the API, with the id of the request. */
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
            <Button size="xs" variant="outline" color="red" onClick={retry}>
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
      return { title, hint: sentence(error.missing) ?? 'Your role does not allow this, or it is not there.' };
    case 409:
      return { title, hint: conflictOf(error) };
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

/** The reason of a conflict, with the entities that prevent the change by kind and id. */
function conflictOf({ reason = '', body: { causes, quota, limit } }: ApiError): string {
  if (typeof quota === 'string') return `At most ${limit}: ${quota.replaceAll('_', ' ')}.`;
  const named = (Array.isArray(causes) ? causes : []).map(({ kind, id }) => `${kind} ${id}`);
  return [REASONS[reason] ?? reason, ...(named.length === 0 ? [] : [named.join(', ')])].join(' ');
}

function waitOf({ retryAfterS }: ApiError): string {
  return retryAfterS === undefined ? '' : ` Try again in ${retryAfterS} s.`;
}
