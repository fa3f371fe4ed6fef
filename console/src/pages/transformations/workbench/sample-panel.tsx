import { NativeSelect, Stack, Text } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import { CodeEditor } from '../../../shared/code-editor.tsx';
import { ErrorAlert } from '../../../shared/error-alert.tsx';
import { eventFieldsOf, eventTitle } from '../../../shared/event-fields.ts';
import { ago } from '../../../shared/timestamp.tsx';
import { type EventJson, textOf } from '../transformation-values.ts';

const OWN = 'own';
const TEST = 'test';

interface Props {
  readonly text: string;
  readonly fault: string | undefined;
  readonly recent: UseQueryResult<readonly EventJson[]>;
  readonly testInput: string;
  readonly onChange: (text: string) => void;
  readonly onRun: () => void;
  readonly height: string;
}

/** The event that the code is run on: a recent one, that of the test, or a typed one. */
export function SamplePanel({ text, fault, recent, testInput, onChange, onRun, height }: Props) {
  const events = recent.data ?? [];
  const texts = new Map(events.map((event, index) => [String(index), textOf(event)]));
  if (testInput !== '') texts.set(TEST, testInput);
  const chosen = [...texts].find(([, known]) => known === text)?.[0] ?? OWN;
  return (
    <Stack gap="xs">
      <NativeSelect
        label="Sample event"
        value={chosen}
        data={[
          { value: OWN, label: 'Your own, as written below' },
          ...(testInput === '' ? [] : [{ value: TEST, label: 'The event of the test' }]),
          {
            group: 'Recent events',
            items: events.map((event, index) => ({ value: String(index), label: titleOf(event) })),
          },
        ]}
        onChange={({ currentTarget: { value } }) => {
          const next = texts.get(value);
          if (next !== undefined) onChange(next);
        }}
      />
      {recent.error !== null && <ErrorAlert error={recent.error} retry={() => void recent.refetch()} />}
      <CodeEditor
        language="json"
        label="Sample event"
        value={text}
        onChange={onChange}
        onRun={onRun}
        minHeight="16rem"
        maxHeight={height}
      />
      {fault !== undefined && (
        <Text size="sm" c="red">
          {fault}
        </Text>
      )}
    </Stack>
  );
}

function titleOf(event: EventJson): string {
  const fields = eventFieldsOf(event);
  const when = fields.receivedAt === undefined ? '' : `, ${ago(new Date(fields.receivedAt))}`;
  return `${eventTitle(fields)} of ${fields.subject}${when}`;
}
