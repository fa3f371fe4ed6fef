import { Box, Grid, Stack, Text, Title } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useState } from 'react';
import { ApiError } from '../../../api/errors.ts';
import { eventFieldsOf } from '../../../shared/event-fields.ts';
import { recentEventsQuery } from '../../events/event-calls.ts';
import type { DestinationTypeDetails } from '../queries.ts';
import type { JsonObject } from '../settings/fields.ts';
import { pathsIn } from './event-paths.ts';
import { fieldChoices, previewDraft } from './preview-calls.ts';
import { type ChosenEvent, chosenBody, chosenFields, PreviewPanel } from './preview-panel.tsx';
import {
  type Action,
  faultsOfApi,
  openFaults,
  type SubscriptionDraft,
  subscriptionFaults,
  subscriptionOf,
} from './subscription-draft.ts';
import { SubscriptionList } from './subscription-list.tsx';

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
  /** The stored destination, to which an event can be sent; absent before it is created. */
  readonly stored?: { readonly id: string; readonly isChanged: boolean };
}

/** The subscriptions of a destination, called its mappings, and beside them what an event becomes by them. */
export function MappingsSection(props: Props) {
  const { workspaceId, type, drafts, onChange, settings, error, disabled, stored } = props;
  const [opened, setOpened] = useState<string | null>(null);
  const recent = useQuery(recentEventsQuery(workspaceId, {}));
  const events = useMemo(() => recent.data?.events ?? [], [recent.data]);
  const paths = useMemo(() => pathsIn(events), [events]);
  const eventNames = useMemo(() => namesIn(events), [events]);
  const [chosen, setChosen] = useState<ChosenEvent>();
  const [isStarted, setIsStarted] = useState(false);

  // The faults of a refused save belong to what was sent.
  const [refused, setRefused] = useState({ error, drafts });
  if (refused.error !== error) setRefused({ error, drafts });
  const ofSave = openFaults(faultsIn(error, refused.drafts), refused.drafts, drafts);
  const firstFaulty = ofSave[0]?.key;
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a new refusal opens one
  useEffect(() => {
    if (firstFaulty !== undefined) setOpened(firstFaulty);
  }, [error]);

  const event = chosen ?? (events[0] === undefined ? undefined : { recorded: events[0] });
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
      event: chosenFields(event),
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
            onOpen={setOpened}
            help={{
              paths,
              eventNames,
              disabled,
              ask: (action, query, signal) => fieldChoices(workspaceId, vendor, { action, ...query }, signal),
              askOf: [workspaceId, vendor],
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

function faultsIn(error: Error | null, sent: readonly SubscriptionDraft[]) {
  return error instanceof ApiError ? faultsOfApi(error.faults, sent) : [];
}

function namesIn(events: readonly Readonly<Record<string, unknown>>[]): readonly string[] {
  const names = events.map(eventFieldsOf).flatMap(({ type, name }) => (type === 'track' ? [name] : []));
  return [...new Set(names)].filter((name) => name !== '' && !name.includes('"')).sort();
}
