import { Alert, Button, Center, Loader, MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { ApiError } from './api/errors.ts';
import { router } from './routes.tsx';
import { ExpiredDialog } from './session/expired-dialog.tsx';
import { onSessionChange, sessionStatus, signedInSubject, useSessionStatus } from './session/session.ts';
import { SignInPage } from './session/sign-in-page.tsx';
import { styleNonce } from './shared/style-nonce.ts';
import { cssVariables, theme } from './theme.ts';

const MAX_RETRIES = 3;

const queries = new QueryClient({
  defaultOptions: {
    // The gateway may run on this machine or in a network without internet, so the browser's online state is ignored.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      staleTime: 5_000,
      retry: (failures, error) => failures < MAX_RETRIES && error instanceof ApiError && error.isTemporary,
      retryDelay: (failures, error) =>
        error instanceof ApiError && error.retryAfterS !== undefined
          ? error.retryAfterS * 1_000
          : Math.min(8_000, 500 * 2 ** failures),
    },
  },
});

/** The person whose answers are cached. The cache is cleared at a sign-out, and when another person signs in. */
let subject: string | undefined;
onSessionChange(() => {
  const now = signedInSubject();
  if (sessionStatus() === 'signed-out' || (now !== undefined && subject !== undefined && now !== subject))
    queries.clear();
  subject = now ?? subject;
});

export function App() {
  return (
    <MantineProvider
      theme={theme}
      cssVariablesResolver={cssVariables}
      defaultColorScheme="auto"
      getStyleNonce={styleNonce}
    >
      <Notifications />
      <QueryClientProvider client={queries}>
        <Content />
      </QueryClientProvider>
    </MantineProvider>
  );
}

function Content() {
  const status = useSessionStatus();
  switch (status) {
    case 'starting':
      return (
        <Center mih="100vh">
          <Loader role="status" aria-label="Loading" />
        </Center>
      );
    case 'unreachable':
      return (
        <Center component="main" mih="100vh" p="md">
          <Alert color="red" title="The server does not answer" role="alert">
            <Button size="xs" variant="light" color="red" onClick={() => location.reload()}>
              Try again
            </Button>
          </Alert>
        </Center>
      );
    case 'signed-out':
      return <SignInPage />;
    case 'signed-in':
    case 'expired':
      return (
        <>
          <RouterProvider router={router} />
          {status === 'expired' && <ExpiredDialog />}
        </>
      );
  }
}
