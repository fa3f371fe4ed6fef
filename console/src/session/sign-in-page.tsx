import { Alert, Anchor, Center, Paper, Stack, Text, Title } from '@mantine/core';
import { useEffect } from 'react';
import { useIssuerSignOutUrl } from './session.ts';
import { SignInOptions } from './sign-in-options.tsx';

/** Shown while nobody is signed in. */
export function SignInPage() {
  const issuerSignOutUrl = useIssuerSignOutUrl();
  useEffect(() => {
    document.title = 'Sign in · Tributary';
  }, []);
  return (
    <Center component="main" mih="100vh" p="md">
      <Paper withBorder p="xl" w="100%" maw={440}>
        <Stack gap="lg">
          <Stack gap={4}>
            <Title order={1} size="h2">
              Tributary
            </Title>
            <Text c="dimmed">Sign in to the console.</Text>
          </Stack>
          {issuerSignOutUrl !== undefined && (
            <Alert title="You are signed out here">
              Your session at {new URL(issuerSignOutUrl).host} continues.{' '}
              <Anchor href={issuerSignOutUrl} target="_blank" rel="noreferrer" underline="always">
                End it there as well
              </Anchor>
            </Alert>
          )}
          <SignInOptions />
        </Stack>
      </Paper>
    </Center>
  );
}
