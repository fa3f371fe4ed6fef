import { Alert, Button, Code, Group, List, Stack, Text } from '@mantine/core';
import { ApiError } from '../api/errors.ts';
import { errorText } from './error-text.ts';

const MAX_FAULTS = 10;

interface Props {
  readonly error: unknown;
  readonly retry?: () => void;
}

/** The failure in the words of the API, with the id of the request. */
export function ErrorAlert({ error, retry }: Props) {
  const { title, hint } = errorText(error);
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
