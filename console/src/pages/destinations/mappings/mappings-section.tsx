import { Box, Grid, Stack, Text, Title } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useIsMutating, useQuery } from '@tanstack/react-query';
import { useDeferredValue, useEffect, useMemo, useState } from 'react';
import { ApiError } from '../../../api/errors.ts';
import { eventFieldsOf } from '../../../shared/event-fields.ts';
import { recentEventsQuery } from '../../events/event-calls.ts';
import type { DestinationTypeDetails } from '../queries.ts';
import type { JsonObject } from '../settings/fields.ts';
import { pathsIn, valuesIn } from './event-paths.ts';
import { fieldChoices, HOOK_RUN, previewDraft, type StoredDestination } from './preview-calls.ts';
import { type ChosenEvent, chosenBody, chosenJson, PreviewPanel } from './preview-panel.tsx';
import {
  type Action,
  faultsOfApi,
  openFaults,
  type SubscriptionDraft,
  subscriptionFaults,
  subscriptionOf,
} from './subscription-draft.ts';
import { SubscriptionList } from './subscription-list.tsx';
import { meets } from './trigger.ts';

const DEBOUNCE_MS = 600;
const RECENT_EVENTS = 1_000;

interface Props {
  readonly workspaceId: string;
  readonly type: DestinationTypeDetails;
  readonly drafts: readonly SubscriptionDraft[];
  readonly onChange: (drafts: readonly SubscriptionDraft[]) => void;
  /** The other settings as they are typed; secrets may be masks. */
  readonly settings: JsonObject;
  /** Why the API refused to save them. */
  readonly error: Error | null;
  readonly disabled: boolean;
  /** Absent before it is created. */
  readonly stored?: StoredDestination;
}

/** The subscriptions of a destination, called its mappings, and beside them what an event becomes by them. */
export function MappingsSection(props: Props) {
  const { workspaceId, type, drafts, onChange, settings, error, stored } = props;
  // A run of a hook changes what is saved.
  const disabled = useIsMutating({ mutationKey: HOOK_RUN }) > 0 || props.disabled;
  const [opened, setOpened] = useState<string | null>(null);
  const recent = useQuery(recentEventsQuery(workspaceId, {}));
  const events = useMemo(() => recent.data?.events ?? [], [recent.data]);
  const paths = useMemo(() => pathsIn(events), [events]);
  const eventNames = useMemo(() => namesIn(events), [events]);
  const [chosen, setChosen] = useState<ChosenEvent>();
  const [isStarted, setIsStarted] = useState(false);

  const open = (key: string | null) => {
    setOpened(key);
    if (key !== null) setIsStarted(true);
  };
  // What was saved is read with other keys.
  const [seen, setSeen] = useState(drafts);
  if (seen !== drafts) {
    setSeen(drafts);
    const at = seen.findIndex(({ key }) => key === opened);
    const key = drafts[at]?.key;
    if (key !== undefined && key !== opened && isSame(seen, drafts)) setOpened(key);
  }

  // The faults of a refused save belong to what was sent.
  const [refused, setRefused] = useState({ error, drafts });
  if (refused.error !== error) setRefused({ error, drafts });
  const ofSave = openFaults(faultsIn(error, refused.drafts), refused.drafts, drafts);
  const firstFaulty = ofSave[0]?.key;
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a new refusal opens one
  useEffect(() => {
    if (firstFaulty !== undefined) setOpened(firstFaulty);
  }, [error]);

  const trigger = drafts.find(({ key }) => key === opened)?.trigger;
  const event = useMemo(() => chosen ?? newestFor(trigger, events), [chosen, trigger, events]);
  const values = useDeferredValue(useMemo(() => valuesIn(chosenJson(event)), [event]));
  const settingsText = JSON.stringify(settings);
  const form = useMemo(() => ({ drafts, settings: settingsText }), [drafts, settingsText]);
  const [asked] = useDebouncedValue(form, DEBOUNCE_MS);
  const shown = asked.drafts.filter(({ key, enabled }) => enabled || key === opened);
  const named = event && chosenBody(event);
  const body = named && {
    ...named,
    settings: {
      ...(JSON.parse(asked.settings) as JsonObject),
      subscriptions: asked.drafts.map((one) =>
        subscriptionOf(one.key === opened ? { ...one, enabled: true } : one),
      ),
    },
  };
  const canAsk = isStarted && body !== undefined && subscriptionFaults(asked.drafts).length === 0;
  const preview = useQuery({
    queryKey: ['mapping-preview', workspaceId, type.type, body],
    queryFn: async ({ signal }) => ({
      previews: await previewDraft(workspaceId, type.type, body ?? { settings: {} }, signal),
      drafts: shown,
      event: eventFieldsOf(chosenJson(event)),
    }),
    enabled: canAsk,
    placeholderData: keepPreviousData,
    staleTime: 60_000,
    retry: false,
  });
  const ofPreview = openFaults(faultsIn(preview.error, asked.drafts), asked.drafts, drafts);
  const share = useQuery({
    queryKey: ['mapping-share', workspaceId, type.type, shown.map(({ trigger }) => trigger)],
    queryFn: async ({ signal }) => {
      const asking = { settings: {}, ...body, recent_events: RECENT_EVENTS };
      const previews = await previewDraft(workspaceId, type.type, asking, signal);
      return new Map(shown.map(({ trigger }, index) => [trigger, previews[index]?.recent ?? null]));
    },
    enabled: canAsk && preview.isSuccess && !preview.isPlaceholderData,
    staleTime: 60_000,
    retry: false,
  });
  // Of the form as it is now alone: a preview of what was typed before would stand under other values.
  const isCurrent = asked === form && canAsk && !preview.isPlaceholderData;
  const ofOpened = isCurrent ? shown.findIndex(({ key }) => key === opened) : -1;
  const payload = preview.data?.previews[ofOpened]?.payload;
  // What is typed is asked with once it is saved: the form does not have the stored secrets.
  const vendor = stored === undefined ? { type: type.type, settings } : { destinationId: stored.id };
  return (
    <Stack gap="md" component="section" aria-label="Mappings">
      <Stack gap={4}>
        <Title order={2} size="h4">
          Mappings
        </Title>
        <Text size="sm" c="dimmed">
          Each says which events become which action of {type.title}, and how its fields are filled. An event
          runs every mapping whose trigger it meets, in this order.
        </Text>
      </Stack>
      <Grid gap="lg">
        <Grid.Col span={{ base: 12, lg: 7 }}>
          <SubscriptionList
            actions={type.action_details as readonly unknown[] as readonly Action[]}
            drafts={drafts}
            onChange={onChange}
            faults={[
              ...subscriptionFaults(drafts),
              ...ofSave,
              ...ofPreview.filter(
                (one) => !ofSave.some((other) => other.key === one.key && other.path === one.path),
              ),
            ]}
            opened={opened}
            onOpen={open}
            help={{
              workspaceId,
              paths,
              values,
              eventNames,
              disabled,
              ask: (action, query, signal) => fieldChoices(workspaceId, vendor, { action, ...query }, signal),
              askOf: [workspaceId, vendor],
              made: payload === null || payload === undefined ? undefined : { value: payload },
              stored,
            }}
          />
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 5 }}>
          <Box
            pos="sticky"
            top={72}
            mah={{ base: 'none', lg: 'calc(100dvh - 88px)' }}
            style={{ overflowY: 'auto' }}
          >
            <PreviewPanel
              workspaceId={workspaceId}
              recent={recent}
              event={event}
              onChoose={setChosen}
              preview={preview}
              share={share.data}
              isStarted={isStarted}
              onStart={() => setIsStarted(true)}
              stored={stored}
            />
          </Box>
        </Grid.Col>
      </Grid>
    </Stack>
  );
}

/** The newest event that a trigger takes, else the newest. */
function newestFor(
  trigger: string | undefined,
  events: readonly Readonly<Record<string, unknown>>[],
): ChosenEvent | undefined {
  const taken = events.find((one) => trigger !== undefined && meets(trigger, eventFieldsOf(one)));
  const recorded = taken ?? events[0];
  return recorded && { recorded };
}

function isSame(before: readonly SubscriptionDraft[], after: readonly SubscriptionDraft[]): boolean {
  return JSON.stringify(before.map(subscriptionOf)) === JSON.stringify(after.map(subscriptionOf));
}

function faultsIn(error: Error | null, sent: readonly SubscriptionDraft[]) {
  return error instanceof ApiError ? faultsOfApi(error.faults, sent) : [];
}

function namesIn(events: readonly Readonly<Record<string, unknown>>[]): readonly string[] {
  const names = events.map(eventFieldsOf).flatMap(({ type, name }) => (type === 'track' ? [name] : []));
  return [...new Set(names)].filter((name) => name !== '' && !name.includes('"')).sort();
}
