import { Center, Code, Stack, Text, Title } from '@mantine/core';

/** Shown while nobody is signed in. */
export function SignInPage() {
  return (
    <Center component="main" mih="100vh" p="md">
      <Stack maw={480}>
        <Title order={1}>Tributary</Title>
        <Text>
          Open the link that <Code>npm start</Code> printed to sign in. It is good once, for this browser.
        </Text>
      </Stack>
    </Center>
  );
}
