import { useDebouncedValue } from '@mantine/hooks';
import { Spotlight, type SpotlightActionData, type SpotlightActionGroupData } from '@mantine/spotlight';
import { MagnifyingGlassIcon } from '@radix-ui/react-icons';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { meQuery } from './menu.tsx';
import { ORGANIZATION_PAGE, SYSTEM_PAGE, WORKSPACE_PAGES } from './navigation.ts';
import { type FoundEntities, useFoundEntities } from './palette-entities.ts';
import { workspaceQuery } from './workspace.tsx';

const DEBOUNCE_MS = 200;
const MESSAGE_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

interface Props {
  readonly workspaceId: string | undefined;
}

/** Ctrl-K: every page, every entity by its name, and an event by its message id. */
export function CommandPalette({ workspaceId }: Props) {
  const [query, setQuery] = useState('');
  const [q] = useDebouncedValue(query.trim(), DEBOUNCE_MS);
  const { data: found, isFetching, error } = useFoundEntities(workspaceId, q);
  const pages = usePages(workspaceId);
  const event = useEvent(workspaceId, query.trim());
  const entities = useEntities(workspaceId, found);
  const isSearching = isFetching || q !== query.trim();
  return (
    <Spotlight
      actions={[{ group: 'Pages', actions: [...pages, ...event] }, ...entities]}
      query={query}
      onQueryChange={setQuery}
      shortcut="mod + K"
      attributes={{ content: { 'aria-label': 'Search' } }}
      highlightQuery
      scrollable
      maxHeight="min(60vh, 480px)"
      limit={40}
      nothingFound={
        isSearching ? 'Searching …' : error === null ? 'Nothing of that name' : 'The search does not answer'
      }
      searchProps={{
        leftSection: <MagnifyingGlassIcon aria-hidden />,
        placeholder: 'Page, name or message id',
        'aria-label': 'Page, name or message id',
      }}
    />
  );
}

function usePages(workspaceId: string | undefined): readonly SpotlightActionData[] {
  const navigate = useNavigate();
  const { data: me } = useQuery(meQuery);
  const { data: workspace } = useQuery({
    ...workspaceQuery(workspaceId ?? ''),
    enabled: workspaceId !== undefined,
  });
  const organizationId = workspace?.organization_id;
  return [
    ...(workspaceId === undefined
      ? []
      : WORKSPACE_PAGES.map(({ title, path, icon: Icon }) => ({
          id: path,
          label: title,
          leftSection: <Icon aria-hidden />,
          onClick: () => void navigate({ to: path, params: { workspaceId } }),
        }))),
    ...(organizationId === undefined
      ? []
      : [
          {
            id: ORGANIZATION_PAGE.path,
            label: ORGANIZATION_PAGE.title,
            leftSection: <ORGANIZATION_PAGE.icon aria-hidden />,
            onClick: () => void navigate({ to: ORGANIZATION_PAGE.path, params: { organizationId } }),
          },
        ]),
    ...(me?.operator === true
      ? [
          {
            id: SYSTEM_PAGE.path,
            label: SYSTEM_PAGE.title,
            leftSection: <SYSTEM_PAGE.icon aria-hidden />,
            onClick: () => void navigate({ to: SYSTEM_PAGE.path }),
          },
        ]
      : []),
  ];
}

function useEvent(workspaceId: string | undefined, text: string): readonly SpotlightActionData[] {
  const navigate = useNavigate();
  if (workspaceId === undefined || !MESSAGE_ID.test(text)) return [];
  return [
    {
      id: 'event',
      label: `Where is the event ${text}?`,
      onClick: () =>
        void navigate({
          to: '/w/$workspaceId/events/$messageId',
          params: { workspaceId, messageId: text.toLowerCase() },
        }),
    },
  ];
}

function useEntities(
  workspaceId: string | undefined,
  found: FoundEntities | undefined,
): readonly SpotlightActionGroupData[] {
  const navigate = useNavigate();
  if (workspaceId === undefined || found === undefined) return [];
  const groups: readonly (readonly [
    group: string,
    entities: FoundEntities[keyof FoundEntities],
    open: (id: string, name: string) => unknown,
  ])[] = [
    [
      'Sources',
      found.sources,
      (_, q) =>
        navigate({ to: '/w/$workspaceId/keys', params: { workspaceId }, search: { tab: 'sources', q } }),
    ],
    [
      'Contracts',
      found.contracts,
      (contractId) =>
        navigate({ to: '/w/$workspaceId/contracts/$contractId', params: { workspaceId, contractId } }),
    ],
    [
      'Transformations',
      found.transformations,
      (transformationId) =>
        navigate({
          to: '/w/$workspaceId/transformations/$transformationId',
          params: { workspaceId, transformationId },
        }),
    ],
    [
      'Destinations',
      found.destinations,
      (destinationId) =>
        navigate({
          to: '/w/$workspaceId/destinations/$destinationId',
          params: { workspaceId, destinationId },
        }),
    ],
    [
      'Rules',
      found.rules,
      (ruleId) => navigate({ to: '/w/$workspaceId/rules/$ruleId', params: { workspaceId, ruleId } }),
    ],
  ];
  return groups
    .filter(([, entities]) => entities.length > 0)
    .map(([group, entities, open]) => ({
      group,
      actions: entities.map(({ id, name }) => ({ id, label: name, onClick: () => void open(id, name) })),
    }));
}
