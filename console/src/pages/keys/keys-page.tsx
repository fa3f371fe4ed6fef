import { Tabs } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useMay } from '../../frame/workspace.tsx';
import { Page } from '../../shared/page.tsx';
import { ApiKeys } from './api-keys.tsx';
import type { KeyFilter, KeysTab } from './search.ts';
import { Sources } from './sources.tsx';
import { WriteKeys } from './write-keys.tsx';

/** Sources, write keys for sending events, and API keys for calling the API. */
export function KeysPage() {
  const { tab = 'write', ...filter } = useSearch({ from: '/w/$workspaceId/keys' });
  const navigate = useNavigate({ from: '/w/$workspaceId/keys' });
  const mayApiKeys = useMay('admin');
  const list = {
    filter,
    onFilter: (next: KeyFilter) => void navigate({ search: { tab, ...next }, replace: true }),
  };
  return (
    <Page
      title="Sources and keys"
      description="A write key lets an app or a server send events. A source names where they come from. An API key lets a program call the API."
    >
      <Tabs
        value={tab}
        onChange={(next) => void navigate({ search: { tab: next as KeysTab } })}
        keepMounted={false}
      >
        <Tabs.List>
          <Tabs.Tab value="write">Write keys</Tabs.Tab>
          <Tabs.Tab value="sources">Sources</Tabs.Tab>
          {mayApiKeys && <Tabs.Tab value="api">API keys</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="write" pt="md">
          <WriteKeys {...list} />
        </Tabs.Panel>
        <Tabs.Panel value="sources" pt="md">
          <Sources {...list} />
        </Tabs.Panel>
        <Tabs.Panel value="api" pt="md">
          <ApiKeys {...list} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
