import { Alert, Code, Stack, Tabs, Text } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { CopyField } from '../../shared/copy-field.tsx';
import type { SnippetName } from './search.ts';
import { PLACEHOLDER, snippetsOf } from './snippets.ts';

const ROUTE = '/w/$workspaceId/keys/$keyId';

interface Props {
  /** Absent unless the key was created in this tab; then a placeholder stands for it. */
  readonly rawKey: string | undefined;
  readonly prefix: string;
}

/** The code that sends the first event, for each SDK, with the address of this server and the key. */
export function SnippetsPanel({ rawKey, prefix }: Props) {
  const { sdk = 'curl' } = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: ROUTE });
  const snippets = snippetsOf({ url: location.origin, writeKey: rawKey ?? PLACEHOLDER });
  return (
    <Stack gap="sm">
      {rawKey === undefined && (
        <Alert variant="light">
          Put the key in place of <Code>{PLACEHOLDER}</Code>: it begins with <Code>{prefix}</Code> and was
          shown when it was created. If it is lost, create another one.
        </Alert>
      )}
      <Tabs
        value={sdk}
        onChange={(next) => void navigate({ search: { sdk: next as SnippetName }, replace: true })}
        keepMounted={false}
      >
        <Tabs.List>
          {snippets.map(({ name, title }) => (
            <Tabs.Tab key={name} value={name}>
              {title}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {snippets.map(({ name, title, install, code, note }) => (
          <Tabs.Panel key={name} value={name} pt="md">
            <Stack gap="sm">
              {install !== undefined && (
                <CopyField value={install} label={`the install command for ${title}`} block />
              )}
              <CopyField value={code} label={`the snippet for ${title}`} block />
              {note !== undefined && (
                <Text size="sm" c="dimmed">
                  {note}
                </Text>
              )}
            </Stack>
          </Tabs.Panel>
        ))}
      </Tabs>
    </Stack>
  );
}
