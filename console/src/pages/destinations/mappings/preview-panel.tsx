import {
  Accordion,
  Alert,
  Button,
  Code,
  Group,
  Loader,
  NativeSelect,
  Paper,
  Stack,
  Text,
  Title,
} from '@mantine/core';
import { type UseQueryResult, useMutation } from '@tanstack/react-query';
import { memo } from 'react';
import type { Schemas } from '../../../api/client.ts';
import { ApiError } from '../../../api/errors.ts';
import { CodeEditor } from '../../../shared/code-editor.tsx';
import { PlainCode } from '../../../shared/code-view.tsx';
import { ErrorAlert } from '../../../shared/error-alert.tsx';
import {
  type EventFields,
  eventFieldsOf,
  eventTitle,
  isEnvironment,
  producerEventOf,
} from '../../../shared/event-fields.ts';
import { JsonView } from '../../../shared/json-view.tsx';
import { numberText, plural, shareText } from '../../../shared/quantities.ts';
import { type Status, StatusLabel } from '../../../shared/status-badge.tsx';
import { ago } from '../../../shared/timestamp.tsx';
import { type StoredDestination, sendEvent } from './preview-calls.ts';
import type { SubscriptionDraft } from './subscription-draft.ts';
import { mismatchText } from './trigger.ts';

type EventJson = Schemas['RecentEvents']['events'][number];
type Preview = Schemas['SubscriptionPreview'];

/** The event of a preview: a recorded one, or one that the person writes. */
export type ChosenEvent = { readonly recorded: EventJson } | { readonly text: string };

const OWN = 'own';
const EXAMPLE = `{
  "type": "track",
  "event": "Order Placed",
  "user_id": "ada",
  "properties": { "total": 120 }
}`;

/** The members of the body of a call that name the event. Undefined for a text that is no object. */
export function chosenBody(event: ChosenEvent) {
  if ('text' in event) {
    const own = parsed(event.text);
    return own && { event: own };
  }
  const { messageId, environment } = eventFieldsOf(event.recorded);
  return { message_id: messageId, ...(isEnvironment(environment) && { environment }) };
}

export function chosenJson(event: ChosenEvent | undefined): Readonly<Record<string, unknown>> {
  if (event === undefined) return {};
  return 'text' in event ? (parsed(event.text) ?? {}) : event.recorded;
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

/** The previews of an event by subscription. */
interface Previewed {
  readonly previews: readonly Preview[];
  readonly drafts: readonly SubscriptionDraft[];
  readonly event: EventFields;
}

interface Props {
  readonly workspaceId: string;
  readonly recent: UseQueryResult<Schemas['RecentEvents']>;
  /** Undefined while there is no recent event and none was written. */
  readonly event: ChosenEvent | undefined;
  readonly onChoose: (event: ChosenEvent) => void;
  readonly preview: UseQueryResult<Previewed>;
  /** The counts of recent events by trigger. */
  readonly share: ReadonlyMap<string, Preview['recent']> | undefined;
  readonly isStarted: boolean;
  readonly onStart: () => void;
  readonly stored: StoredDestination | undefined;
}

/** What an event becomes by the mappings as they are in the form. */
export function PreviewPanel(props: Props) {
  const { workspaceId, recent, event, onChoose, preview, share, isStarted, onStart, stored } = props;
  const events = recent.data?.events ?? [];
  const isOwn = event !== undefined && 'text' in event;
  const isInvalid = isOwn && parsed(event.text) === undefined;
  const start = () => {
    if (event === undefined) onChoose({ text: EXAMPLE });
    onStart();
  };
  return (
    <Paper withBorder p="md" component="section" aria-label="Preview">
      <Stack gap="sm">
        <Group justify="space-between">
          <Title order={3} size="h5">
            Preview
          </Title>
          {preview.isFetching && <Loader size="xs" role="status" aria-label="Making the preview" />}
        </Group>
        <NativeSelect
          label="Event"
          value={
            isOwn
              ? OWN
              : String(
                  events.findIndex(
                    (one) => event !== undefined && 'recorded' in event && one === event.recorded,
                  ),
                )
          }
          data={[
            ...(events.length === 0 && !isOwn
              ? [{ value: '-1', label: 'No event in the last day', disabled: true }]
              : []),
            {
              group: 'Recent events',
              items: events.map((one, index) => ({ value: String(index), label: titleOf(one) })),
            },
            { value: OWN, label: 'Your own, as JSON' },
          ]}
          onChange={({ currentTarget: { value } }) => {
            const recorded = events[Number(value)];
            if (value === OWN)
              onChoose({ text: event === undefined || 'text' in event ? EXAMPLE : textOf(event.recorded) });
            else if (recorded !== undefined) onChoose({ recorded });
          }}
        />
        {recent.error !== null && <ErrorAlert error={recent.error} retry={() => void recent.refetch()} />}
        {isOwn && (
          <CodeEditor
            language="json"
            label="Event of the preview"
            minHeight="6rem"
            maxHeight="16rem"
            value={event.text}
            onChange={(text) => onChoose({ text })}
          />
        )}
        {(!isStarted || event === undefined) && (
          <Group>
            <Button onClick={start}>Preview</Button>
          </Group>
        )}
        {isInvalid && (
          <Text size="sm" c="red" role="alert">
            The event must be a JSON object.
          </Text>
        )}
        {isStarted && preview.error !== null && <Refused error={preview.error} />}
        {isStarted && !isInvalid && preview.error === null && preview.data !== undefined && (
          <Results previewed={preview.data} share={share} />
        )}
        {stored !== undefined && event !== undefined && !isInvalid && (
          <Sending
            key={JSON.stringify(chosenBody(event))}
            workspaceId={workspaceId}
            stored={stored}
            event={event}
          />
        )}
      </Stack>
    </Paper>
  );
}

function titleOf(event: EventJson): string {
  const fields = eventFieldsOf(event);
  const when = fields.receivedAt === undefined ? '' : `, ${ago(new Date(fields.receivedAt))}`;
  return `${eventTitle(fields)} of ${fields.subject}${when}`;
}

/** A recorded event as one to change. */
function textOf(event: EventJson): string {
  return JSON.stringify(producerEventOf(event), null, 2);
}

/** The faults of the mappings stand at their fields. */
function Refused({ error }: { readonly error: Error }) {
  if (!(error instanceof ApiError) || error.status !== 400) return <ErrorAlert error={error} />;
  return (
    <Alert color="yellow" role="status" title="Not ready for a preview">
      {error.faults.map(({ path, message }) => (
        <Text size="sm" key={`${path} ${message}`} style={{ overflowWrap: 'anywhere' }}>
          <Code>{path.replace(/^\/settings\//, '')}</Code> {message}
        </Text>
      ))}
    </Alert>
  );
}

interface ResultsProps {
  readonly previewed: Previewed;
  readonly share: Props['share'];
}

/** Rendered again with another preview only: each key that is typed renders the panel. */
const Results = memo(function Results({ previewed: { previews, drafts, event }, share }: ResultsProps) {
  const results = previews.map((preview, index) => {
    const { key = String(index), trigger = '' } = drafts[index] ?? {};
    const why = preview.matches ? undefined : mismatchText(trigger, event);
    return { key, preview, recent: share?.get(trigger) ?? null, why };
  });
  const matching = results.filter(({ preview }) => preview.matches);
  return (
    <Stack gap="xs">
      <Text size="sm" role="status">
        {drafts.length === 0
          ? 'No mapping is enabled.'
          : `${matching.length} of ${plural(results.length, 'mapping')} ${matching.length === 1 ? 'takes' : 'take'} this event.`}
      </Text>
      <Accordion
        key={event.messageId}
        variant="separated"
        multiple
        defaultValue={matching.slice(0, 1).map(({ key }) => key)}
      >
        {results.map(({ key, preview, recent, why }) => (
          <Accordion.Item key={key} value={key}>
            <Accordion.Control>
              <Group gap="xs">
                <Text size="sm" fw={500}>
                  {preview.subscription}
                </Text>
                <StatusLabel status={statusOf(preview)} />
              </Group>
              {recent !== null && recent.events > 0 && (
                <Text size="xs" c="dimmed">
                  {numberText(recent.matched)} of the last {plural(recent.events, 'event')} (
                  {shareText(recent.matched, recent.events)})
                </Text>
              )}
            </Accordion.Control>
            <Accordion.Panel>
              <Stack gap="sm">
                {why !== undefined && <Text size="sm">{why}</Text>}
                {preview.error !== null && (
                  <Alert color="red" title="It sends nothing further">
                    {preview.error}
                  </Alert>
                )}
                {preview.requests.map((request, index) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: requests have no other identity
                  <Request key={index} request={request} of={preview.subscription} />
                ))}
              </Stack>
            </Accordion.Panel>
          </Accordion.Item>
        ))}
      </Accordion>
    </Stack>
  );
});

function statusOf({ matches, error, requests }: Preview): Status {
  if (!matches) return { label: 'Does not match', tone: 'neutral' };
  if (error !== null) return { label: 'Fails', tone: 'bad' };
  return requests.length === 0
    ? { label: 'Sends nothing', tone: 'warning' }
    : { label: 'Matches', tone: 'good' };
}

type RequestJson = Preview['requests'][number];

function Request({
  request: { method, url, headers, body },
  of,
}: {
  readonly request: RequestJson;
  readonly of: string;
}) {
  return (
    <Stack gap={4}>
      <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
        <Text span fw={600} inherit>
          {method}
        </Text>{' '}
        {url}
      </Text>
      {Object.entries(headers).map(([name, value]) => (
        <Text key={name} size="xs" c="dimmed" ff="monospace" style={{ overflowWrap: 'anywhere' }}>
          {name}: {value}
        </Text>
      ))}
      {body !== '' && <Body text={body} label={`Body of ${of}`} />}
    </Stack>
  );
}

function Body({ text, label }: { readonly text: string; readonly label: string }) {
  const value = jsonIn(text);
  return value === undefined ? (
    <PlainCode value={text} label={label} maxHeight="16rem" />
  ) : (
    <JsonView value={value} label={label} maxHeight="16rem" />
  );
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

interface SendingProps {
  readonly workspaceId: string;
  readonly stored: StoredDestination;
  readonly event: ChosenEvent;
}

/** Sends the event by the stored settings, and shows what the vendor answered. */
function Sending({ workspaceId, stored, event }: SendingProps) {
  const sending = useMutation({
    mutationFn: () => sendEvent(workspaceId, stored.id, chosenBody(event) ?? {}),
  });
  return (
    <Stack gap="sm">
      <Group gap="xs">
        <Button
          variant="default"
          disabled={stored.isChanged}
          loading={sending.isPending}
          onClick={() => sending.mutate()}
        >
          Send for real
        </Button>
        <Text size="xs" c="dimmed" flex={1}>
          {stored.isChanged
            ? 'Save first: an event is sent by what is saved.'
            : 'To the service, by what is saved.'}
        </Text>
      </Group>
      {sending.error !== null && <ErrorAlert error={sending.error} />}
      {sending.data !== undefined && <Sent trial={sending.data} />}
    </Stack>
  );
}

function Sent({ trial: { ok, reason, requests } }: { readonly trial: Schemas['DestinationTrial'] }) {
  return (
    <Alert
      color={ok ? 'teal' : 'red'}
      role="status"
      title={ok ? 'The service took it' : 'The service did not take it'}
    >
      <Stack gap="sm">
        {reason !== null && <Text size="sm">{reason}</Text>}
        {requests.map(({ method, url, response }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: requests have no other identity
          <Stack key={index} gap={4}>
            <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
              {method} {url}: {response === null ? 'no answer' : `answered ${response.status}`}
            </Text>
            {response !== null && response.body !== '' && (
              <Body text={response.body} label={`Answer ${index + 1}`} />
            )}
          </Stack>
        ))}
      </Stack>
    </Alert>
  );
}
