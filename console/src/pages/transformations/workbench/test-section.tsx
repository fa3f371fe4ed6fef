import { Paper, SimpleGrid, Stack, Text } from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { CodeField } from '../../../shared/forms/code-field.tsx';
import type { TransformationValues } from '../transformation-values.ts';

interface Props {
  readonly form: UseFormReturnType<TransformationValues>;
  readonly testError: string | null;
  readonly isReadOnly: boolean;
}

/** The test that runs at every save. */
export function TestSection({ form, testError, isReadOnly }: Props) {
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        <div>
          <Text component="h2" fw={600}>
            Test
          </Text>
          <Text size="sm" c="dimmed">
            Runs at every save. Only a transformation whose test passes can be used by an enabled rule.
          </Text>
        </div>
        {testError !== null && (
          <Text size="sm" c="red" style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }}>
            At the last save: {testError}
          </Text>
        )}
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          <CodeField
            form={form}
            path="test_input_text"
            language="json"
            title="Event"
            label="Event of the test"
            minHeight="8rem"
            maxHeight="18rem"
            isReadOnly={isReadOnly}
          />
          <CodeField
            form={form}
            path="test_output_text"
            language="json"
            title="Expected result: an event, several, or [] where it is dropped"
            label="Expected result of the test"
            minHeight="8rem"
            maxHeight="18rem"
            isReadOnly={isReadOnly}
          />
        </SimpleGrid>
      </Stack>
    </Paper>
  );
}
