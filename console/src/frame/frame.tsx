import {
  Anchor,
  AppShell,
  Burger,
  Button,
  Group,
  Kbd,
  ScrollArea,
  Text,
  useMantineColorScheme,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { spotlight } from '@mantine/spotlight';
import { MagnifyingGlassIcon, MoonIcon, SunIcon } from '@radix-ui/react-icons';
import { useQuery } from '@tanstack/react-query';
import { Outlet, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { signOut } from '../session/session.ts';
import { TextLink } from '../shared/links.tsx';
import { CommandPalette } from './command-palette.tsx';
import classes from './frame.module.css';
import { HelpMenu } from './help-menu.tsx';
import { newestWorkspaceQuery } from './home.tsx';
import { Menu } from './menu.tsx';
import { WorkspaceSwitcher } from './workspace-switcher.tsx';

const CONTENT = 'content';

/** The frame of every page: head, menu, search. */
export function Frame() {
  const [opened, { toggle, close }] = useDisclosure(false);
  const workspaceId = useLastWorkspaceId();
  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 232, breakpoint: 'sm', collapsed: { mobile: !opened } }}
      padding="lg"
    >
      <SkipLink />
      <AppShell.Header px="md">
        <Group h="100%" justify="space-between" wrap="nowrap" gap="xs">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label="Menu" />
            <TextLink to="/" underline="never" c="inherit" fw={700} visibleFrom="xs">
              Tributary
            </TextLink>
            <WorkspaceSwitcher workspaceId={workspaceId} />
          </Group>
          <Group gap="xs" wrap="nowrap">
            <SearchButton />
            <HelpMenu />
            <ColorSchemeSwitch />
            <Button
              variant="subtle"
              color="gray"
              size="compact-sm"
              visibleFrom="sm"
              onClick={() => void signOut()}
            >
              Sign out
            </Button>
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="sm" aria-label="Pages">
        <AppShell.Section grow component={ScrollArea}>
          <Menu workspaceId={workspaceId} onNavigate={close} />
        </AppShell.Section>
        <AppShell.Section hiddenFrom="sm">
          <Button variant="default" fullWidth onClick={() => void signOut()}>
            Sign out
          </Button>
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id={CONTENT} tabIndex={-1}>
        <Outlet />
      </AppShell.Main>
      <CommandPalette workspaceId={workspaceId} />
    </AppShell>
  );
}

/**
 * The workspace of the menu: that of the page, else of the page before, else the newest one. So the menu stays on a page
 * outside a workspace, such as the organization.
 */
function useLastWorkspaceId(): string | undefined {
  const { workspaceId } = useParams({ strict: false });
  const [last, setLast] = useState(workspaceId);
  if (workspaceId !== undefined && workspaceId !== last) setLast(workspaceId);
  const known = workspaceId ?? last;
  const { data: newest } = useQuery({ ...newestWorkspaceQuery, enabled: known === undefined });
  return known ?? newest?.items[0]?.id;
}

/** Moves the focus past the head and the menu. The address does not change. */
function SkipLink() {
  return (
    <Anchor
      href={`#${CONTENT}`}
      className={classes.skip}
      onClick={(event) => {
        event.preventDefault();
        document.getElementById(CONTENT)?.focus();
      }}
    >
      Skip to the content
    </Anchor>
  );
}

function SearchButton() {
  return (
    <Button
      variant="default"
      size="compact-md"
      aria-label="Search Ctrl K"
      leftSection={<MagnifyingGlassIcon aria-hidden />}
      onClick={spotlight.open}
    >
      <Text span size="sm" visibleFrom="sm">
        Search <Kbd size="xs">Ctrl K</Kbd>
      </Text>
    </Button>
  );
}

function ColorSchemeSwitch() {
  const { setColorScheme, colorScheme } = useMantineColorScheme({ keepTransitions: true });
  const isDark =
    colorScheme === 'dark' || (colorScheme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
  return (
    <Button
      variant="subtle"
      color="gray"
      size="compact-md"
      aria-label={isDark ? 'Light colours' : 'Dark colours'}
      onClick={() => setColorScheme(isDark ? 'light' : 'dark')}
    >
      {isDark ? <SunIcon /> : <MoonIcon />}
    </Button>
  );
}
