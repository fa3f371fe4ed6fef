import { Alert, Badge, Button, Group, List, Stack, Text } from '@mantine/core';
import { PlayIcon } from '@radix-ui/react-icons';
import type { UseMutationResult } from '@tanstack/react-query';
import { ErrorAlert } from '../../../shared/error-alert.tsx';
import { JsonView } from '../../../shared/json-view.tsx';
import { outcomeOf, type Trial } from '../transformation-values.ts';

const LEVEL_COLORS = { debug: 'gray', info: 'blue', warn: 'yellow', error: 'red' } as const;

interface Props {
  readonly trial: UseMutationResult<Trial, Error, void>;
  readonly canRun: boolean;
  readonly isReadOnly: boolean;
  readonly onRun: () => void;
  readonly onTakeAsTest: (trial: Trial) => void;
  readonly height: string;
}

/** The output of the code for the sample: events, logs and time, or the location of the failure. */
export function TrialPanel({ trial, canRun, isReadOnly, onRun, onTakeAsTest, height }: Props) {
  const { data, error, isPending } = trial;
  return (
    <Stack gap="xs">
      <Group justify="space-between" align="flex-end">
        <Text fw={500} size="sm" component="h2">
          Result
        </Text>
        {!isReadOnly && (
          <Button
            leftSection={<PlayIcon aria-hidden />}
            disabled={!canRun}
            loading={isPending}
            title="Ctrl-Enter in an editor"
            onClick={onRun}
          >
            Run
          </Button>
        )}
      </Group>
      {error !== null && <ErrorAlert error={error} retry={onRun} />}
      {data === undefined
        ? error === null && (
            <Text c="dimmed" size="sm">
              {isReadOnly
                ? 'An editor of the workspace can run it.'
                : 'Run it to see what it makes of the event. Nothing is stored or delivered.'}
            </Text>
          )
        : !isPending && (
            <Outcome trial={data} isReadOnly={isReadOnly} onTakeAsTest={onTakeAsTest} height={height} />
          )}
    </Stack>
  );
}

interface OutcomeProps extends Pick<Props, 'isReadOnly' | 'onTakeAsTest' | 'height'> {
  readonly trial: Trial;
}

function Outcome({ trial, isReadOnly, onTakeAsTest, height }: OutcomeProps) {
  const { ok, output, error, line, column, logs, compile_ms, run_ms } = trial;
  return (
    <Stack gap="xs" role="status">
      {ok ? (
        <Text size="sm" fw={600}>
          {output === null ? 'The event is dropped.' : `It makes ${outcomeOf(trial)}.`}
        </Text>
      ) : (
        <Alert color="red" title={line === null ? 'It failed' : locationText(line, column)}>
          <Text size="sm" style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }}>
            {error}
          </Text>
        </Alert>
      )}
      {output !== null && <JsonView value={output} label="Output" maxHeight={height} />}
      <Text size="xs" c="dimmed">
        Ran for {timeText(run_ms)}, compiled in {timeText(compile_ms)}.
      </Text>
      {logs.length > 0 && (
        <Stack gap={2}>
          <Text size="sm" fw={500}>
            Logs
          </Text>
          <List listStyleType="none" size="sm" aria-label="Logs">
            {logs.map(({ level, text }, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: lines have nothing else
              <List.Item key={index}>
                <Badge variant="dot" color={LEVEL_COLORS[level]} tt="none" mr={6}>
                  {level}
                </Badge>
                <Text span ff="monospace" size="xs" style={{ overflowWrap: 'anywhere' }}>
                  {text}
                </Text>
              </List.Item>
            ))}
          </List>
        </Stack>
      )}
      {ok && !isReadOnly && (
        <Button variant="default" size="xs" w="fit-content" onClick={() => onTakeAsTest(trial)}>
          Take event and result as the test
        </Button>
      )}
    </Stack>
  );
}

function locationText(line: number, column: number | null): string {
  return column === null ? `It failed in line ${line}` : `It failed in line ${line}, column ${column}`;
}

function timeText(ms: number): string {
  return ms < 0.01 ? 'less than 0.01 ms' : `${Number(ms.toPrecision(2))} ms`;
}
