import {
  Anchor,
  type AnchorProps,
  Button,
  type ButtonProps,
  NavLink,
  type NavLinkProps,
} from '@mantine/core';
import { createLink } from '@tanstack/react-router';
import type { AnchorHTMLAttributes } from 'react';

type Native<T> = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, keyof T>;

/** Mantine's components as links of the router, with its checked paths and parameters. */
export const TextLink = createLink((props: AnchorProps & Native<AnchorProps>) => <Anchor {...props} />);
export const ButtonLink = createLink((props: ButtonProps & Native<ButtonProps>) => (
  <Button component="a" {...props} />
));
export const MenuLink = createLink((props: NavLinkProps & Native<NavLinkProps>) => (
  <NavLink component="a" {...props} />
));
