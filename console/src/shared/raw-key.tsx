import { Alert, Stack, Text } from '@mantine/core';
import { skipToken, useQuery, useQueryClient } from '@tanstack/react-query';
import { CopyField } from './copy-field.tsx';

const rawKeyQuery = (keyId: string) => ['raw key', keyId] as const;

/** Keeps a raw key in the memory of this tab, so that pages with instructions can fill it in. */
export function useRememberRawKey(): (key: { readonly id: string; readonly key: string }) => void {
  const queries = useQueryClient();
  return ({ id, key }) => {
    queries.setQueryDefaults(rawKeyQuery(id), { gcTime: Number.POSITIVE_INFINITY });
    queries.setQueryData(rawKeyQuery(id), key);
  };
}

/** The raw key, if it was created in this tab since the page was loaded. */
export function useRawKey(keyId: string): string | undefined {
  return useQuery<string>({
    queryKey: rawKeyQuery(keyId),
    queryFn: skipToken,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: Number.POSITIVE_INFINITY,
  }).data;
}

/** Shows a new key. Later it cannot be shown again. */
export function RawKey({ value }: { readonly value: string }) {
  return (
    <Alert color="yellow" title="Copy the key now">
      <Stack gap="xs">
        <Text size="sm">
          Only a hash of it is stored: once this page is reloaded or left, nobody can show it again. Keep it
          where your secrets are, not in a repository.
        </Text>
        <CopyField value={value} label="the key" />
      </Stack>
    </Alert>
  );
}
